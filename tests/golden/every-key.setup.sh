# shellcheck shell=bash disable=SC1091
# The set-up of run every-key-260101-abcde. The job's script sources it; its last status counts.
if ! type module >/dev/null 2>&1; then
  for slurmswift_init in "${LMOD_PKG-}/init/bash" "${MODULESHOME-}/init/bash" \
    /etc/profile.d/lmod.sh /etc/profile.d/modules.sh; do
    # shellcheck source=/dev/null
    if [ -r "$slurmswift_init" ]; then . "$slurmswift_init" && break; fi
  done
  unset slurmswift_init
fi
module load cuda/12.4 || return 1
module load 'odd name' || return 1
source /shared/ada/venv/bin/activate
ulimit -l unlimited
