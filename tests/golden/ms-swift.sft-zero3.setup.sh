# shellcheck shell=bash disable=SC1091
# The set-up of run swift-zero3-260101-abcde. The job's script sources it; its last status counts.
