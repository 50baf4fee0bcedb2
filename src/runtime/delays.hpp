// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace evener::runtime {

/// Sleeps a random time when EVENER_RANDOM_DELAYS=seed:max_microseconds asks for it (tests shake
/// the order of events with it); else returns at once.
void random_delay();

} // namespace evener::runtime
