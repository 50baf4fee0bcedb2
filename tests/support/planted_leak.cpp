// SPDX-License-Identifier: Apache-2.0

// Loses a block of memory, or overflows an integer when given an argument: the sanitizers must say
// so.

#include <cstddef>
#include <cstdio>
#include <limits>

namespace {

char* volatile kept = nullptr;

void lose(std::size_t bytes) {
    kept = new char[bytes];
    kept = nullptr;
}

} // namespace

int main(int argc, char**) {
    lose(1234);
    int volatile number = argc > 1 ? std::numeric_limits<int>::max() : 0;
    std::printf("%d\n", number + 1);
    return 0;
}
