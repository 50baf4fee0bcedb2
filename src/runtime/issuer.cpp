// SPDX-License-Identifier: Apache-2.0
#include "runtime/issuer.hpp"

#include <algorithm>

namespace evener::runtime {

Issuer::Issuer(std::vector<IssuedInstruction> const& list, comm::Transport& transport,
               comm::Board const& board, std::function<void(std::size_t)> issue)
    : list_{list}, transport_{transport}, board_{board}, issue_{std::move(issue)} {
    for (std::size_t place = 0; place < list_.size(); ++place)
        if (list_[place].stream == kernels::StreamKind::compute)
            compute_.push_back(place);
        else
            beside_[static_cast<std::size_t>(list_[place].stream)].places.push_back(place);
}

bool Issuer::any_may_issue() const {
    return std::any_of(beside_.begin(), beside_.end(),
                       [this](Stream const& stream) { return may_issue(stream); });
}

void Issuer::issue_beside() {
    while (any_may_issue())
        for (Stream& stream : beside_)
            while (may_issue(stream))
                issue_(stream.places[stream.next++]);
}

void Issuer::issue_compute(std::size_t place) {
    issue_beside();
    while (!done(place)) {
        transport_.wait_until([&] { return done(place) || any_may_issue(); });
        issue_beside();
    }
    issue_(place);
}

void Issuer::run() {
    for (Stream& stream : beside_)
        stream.next = 0;
    for (std::size_t const place : compute_)
        issue_compute(place);
    auto const rest = [this] {
        return std::any_of(beside_.begin(), beside_.end(),
                           [](Stream const& stream) { return stream.next < stream.places.size(); });
    };
    issue_beside();
    while (rest()) {
        transport_.wait_until([this] { return any_may_issue(); });
        issue_beside();
    }
}

} // namespace evener::runtime
