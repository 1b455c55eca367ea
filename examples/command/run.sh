#!/bin/bash
# The launch line that one has already. Its variables come from slurmswift, on each node its own.
set -euo pipefail
echo "node $NODE_RANK of $NNODES; resuming from: ${RESUME_FROM:-the start}"
exec torchrun \
  --nnodes="$NNODES" --node_rank="$NODE_RANK" --nproc_per_node="$NPROC_PER_NODE" \
  --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" \
  ../torchrun-cpu/train.py "$@"
