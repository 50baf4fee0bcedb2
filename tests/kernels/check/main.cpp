// SPDX-License-Identifier: Apache-2.0

// The plug-in EVENER_TEST_PLUGIN on a machine that has nothing but a compiler:
//   gpu_check compare [EVERY]  every operation against the reference; each EVERYth case
//   gpu_check rates [small]    a table of rates; small: sizes for a device that is none
// Exit code: 0 good, 1 a difference, 2 wrong use or a failure, 77 no device.

#include "kernels/cases.hpp"
#include "kernels/compare.hpp"
#include "kernels/reference/reference.hpp"

#include "rates.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>

namespace evener::kernels::test {
namespace {

void print_device(OpenTable const& open) {
    DeviceFacts facts;
    Reason reason;
    if (open.table().memory == nullptr || open.table().memory->describe(0, &facts, &reason) != 0)
        std::printf("device: %s\n", open.table().description);
    else
        std::printf("device: %s, %.1f GiB, compute capability %d.%d, driver %d.%d; %s\n",
                    facts.name, static_cast<double>(facts.memory_bytes) * 0x1p-30,
                    facts.capability_major, facts.capability_minor, facts.driver_version / 1000,
                    facts.driver_version % 1000 / 10, open.table().description);
    std::fflush(stdout);
}

struct Tally {
    int cases = 0;
    int wrong = 0;
    double worst = 0;
};

int compare_all(OpenTable const& open, int every) {
    OpenTable const reference{reference::reference_table(), 1};
    std::map<OperationKind, Tally> tallies;
    int index = 0;
    int wrong = 0;
    for (Case const& test : all_cases()) {
        // At least one case of each operation, whatever is left out.
        Tally& tally = tallies[test.shape.kind];
        if (index++ % every != 0 && tally.cases > 0)
            continue;
        Comparison const found = compare_with_reference(open, reference, test);
        ++tally.cases;
        tally.worst = std::max(tally.worst, found.worst);
        if (found.complaint.empty())
            continue;
        ++tally.wrong;
        ++wrong;
        std::printf("wrong: %s\n", found.complaint.c_str());
        std::fflush(stdout);
    }
    std::printf("%-26s %6s %6s  %s\n", "operation", "cases", "wrong",
                "largest difference, as a share of the tolerance");
    for (auto const& [kind, tally] : tallies)
        std::printf("%-26s %6d %6d  %.3f\n", name_of(kind), tally.cases, tally.wrong, tally.worst);
    return wrong == 0 ? 0 : 1;
}

int check(std::string const& what, std::string const& how) {
    bool const small = how == "small";
    int const every = how.empty() ? 1 : std::atoi(how.c_str());
    bool const known = what == "compare" ? every > 0 : what == "rates" && (small || how.empty());
    if (!known) {
        std::fprintf(stderr, "usage: gpu_check compare [EVERY] | rates [small]\n");
        return 2;
    }
    if (plugin_table() == nullptr) {
        std::printf("skipped: %s\n", why_unusable().c_str());
        return 77;
    }
    OpenTable const open{plugin_table(), test_threads()};
    print_device(open);
    if (what == "compare")
        return compare_all(open, every);
    if (open.table().memory == nullptr) {
        std::fprintf(stderr, "rates are of devices with a memory of their own\n");
        return 2;
    }
    if (small)
        std::printf("small sizes: these times mean nothing\n");
    print_rates(open, small);
    return 0;
}

} // namespace
} // namespace evener::kernels::test

int main(int count, char** words) {
    try {
        return evener::kernels::test::check(count > 1 ? words[1] : "", count > 2 ? words[2] : "");
    } catch (std::exception const& error) {
        std::fprintf(stderr, "gpu_check: %s\n", error.what());
        return 2;
    }
}
