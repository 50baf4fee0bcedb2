#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# races.sh LAUNCHER PROGRAM: the kernel tests under ThreadSanitizer, all cases at size full, every 6th
# at ci, every 30th at quick.
set -euo pipefail
case ${EVENER_TEST_SIZE:-ci} in
full) shards=1 ;;
quick) shards=30 ;;
*) shards=6 ;;
esac
export GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=0
exec "$1" "$2" --gtest_filter='*AgreesWithReference*' --gtest_brief=1
