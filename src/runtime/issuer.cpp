// SPDX-License-Identifier: Apache-2.0
#include "runtime/issuer.hpp"

#include <algorithm>

namespace evener::runtime {

Issuer::Issuer(std::vector<IssuedInstruction> const& list, comm::Transport& transport,
               comm::Board const& board, IssueSteps steps)
    : list_{list}, transport_{transport}, board_{board}, steps_{std::move(steps)} {
    for (std::size_t place = 0; place < list_.size(); ++place)
        if (list_[place].stream == kernels::StreamKind::compute)
            compute_.push_back(place);
        else
            beside_[static_cast<std::size_t>(list_[place].stream)].places.push_back(place);
}

bool Issuer::may_go_on(Stream const& stream) const {
    if (stream.next == stream.places.size())
        return false;
    std::size_t const place = stream.places[stream.next];
    return stream.begun ? steps_.whole(place) : done(place);
}

bool Issuer::any_may_go_on() const {
    return std::any_of(beside_.begin(), beside_.end(),
                       [this](Stream const& stream) { return may_go_on(stream); });
}

void Issuer::go_on(Stream& stream) {
    std::size_t const place = stream.places[stream.next];
    if (!stream.begun)
        steps_.begin(place);
    stream.begun = !steps_.whole(place);
    if (stream.begun)
        return;
    steps_.end(place);
    ++stream.next;
}

void Issuer::issue_beside() {
    while (any_may_go_on())
        for (Stream& stream : beside_)
            while (may_go_on(stream))
                go_on(stream);
}

void Issuer::issue_compute(std::size_t place) {
    issue_beside();
    while (!done(place)) {
        if (steps_.waits)
            steps_.waits(place);
        transport_.wait_until([&] { return done(place) || any_may_go_on(); });
        issue_beside();
    }
    steps_.begin(place);
    EVENER_ENSURE(steps_.whole(place));
    steps_.end(place);
}

void Issuer::run() {
    for (std::size_t const place : compute_)
        issue_compute(place);
    auto const rest = [this] {
        return std::any_of(beside_.begin(), beside_.end(),
                           [](Stream const& stream) { return stream.next < stream.places.size(); });
    };
    issue_beside();
    while (rest()) {
        transport_.wait_until([this] { return any_may_go_on(); });
        issue_beside();
    }
}

} // namespace evener::runtime
