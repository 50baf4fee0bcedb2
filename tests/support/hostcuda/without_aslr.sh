#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# without_aslr.sh PROGRAM [argument ...]: runs it with addresses that ThreadSanitizer can map, or
# exits with 77 (skipped) where that is refused.
set -euo pipefail
if ! setarch -R true 2>/dev/null; then
    echo "skipped: setarch -R is refused here, and ThreadSanitizer needs it"
    exit 77
fi
exec setarch -R "$@"
