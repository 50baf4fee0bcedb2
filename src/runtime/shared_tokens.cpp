// SPDX-License-Identifier: Apache-2.0
#include "runtime/shared_tokens.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::runtime {

namespace {

constexpr std::size_t message_bytes = std::size_t{16} << 20;

} // namespace

SharedTokens::SharedTokens(comm::Communicator const& world, FileReaders const& readers,
                           TokenSource const* own, std::vector<std::int64_t> sequences,
                           std::int64_t sequence_length)
    : comm_{comm::Communicator::duplicate(world.get())}, own_{own},
      reader_{readers.reader_of(world.rank())}, served_{readers.served_by(world.rank())},
      sequences_{std::move(sequences)}, length_{static_cast<std::size_t>(sequence_length)} {
    EVENER_EXPECT((own != nullptr) == readers.sees(world.rank()));
    EVENER_EXPECT(std::is_sorted(sequences_.begin(), sequences_.end()));
    auto all = comm::all_gather_values(comm_, std::span<std::int64_t const>{sequences_});
    for (int const rank : served_)
        served_sequences_.push_back(std::move(all[static_cast<std::size_t>(rank)]));
}

template <class Use>
void SharedTokens::for_each_message(std::size_t sequences, Use const& use) const {
    std::size_t const most = std::max<std::size_t>(1, message_bytes / (2 * length_ * 4));
    for (std::size_t first = 0; first < sequences; first += most)
        use(first, std::min(most, sequences - first));
}

// All ranks prepare the same steps in the same order, so each knows what the others hold.
void SharedTokens::prepare(std::int64_t step) const {
    std::erase_if(held_,
                  [&](auto const& rows) { return rows.first != step && rows.first != step + 1; });
    for (std::int64_t const wanted : {step, step + 1}) {
        if (held_.contains(wanted))
            continue;
        if (own_ == nullptr)
            held_[wanted] = receive(wanted);
        else
            send(wanted);
        held_.try_emplace(wanted);
    }
}

void SharedTokens::send(std::int64_t step) const {
    Rows rows;
    for (std::size_t i = 0; i < served_.size(); ++i) {
        std::vector<std::int64_t> const& sequences = served_sequences_[i];
        for_each_message(sequences.size(), [&](std::size_t first, std::size_t count) {
            rows.resize(count * 2 * length_);
            try {
                for (std::size_t s = 0; s < count; ++s) {
                    std::span<std::int32_t> const row{rows.data() + s * 2 * length_, 2 * length_};
                    own_->read(step, sequences[first + s], row.first(length_), row.last(length_));
                }
            } catch (core::Error const& error) {
                send_failure(comm_, error.what(), served_[i]);
                throw;
            }
            send_bytes(comm_, std::as_bytes(std::span{rows}), served_[i]);
        });
    }
}

SharedTokens::Rows SharedTokens::receive(std::int64_t step) const {
    Rows rows(sequences_.size() * 2 * length_);
    for_each_message(sequences_.size(), [&](std::size_t first, std::size_t count) {
        std::span<std::int32_t> const part{rows.data() + first * 2 * length_, count * 2 * length_};
        if (auto const reason = receive_bytes(comm_, std::as_writable_bytes(part), reader_))
            throw core::IoError{fmt::format("the data that rank {} reads", reader_),
                                fmt::format("step {}: {}", step + 1, *reason)};
    });
    return rows;
}

std::int32_t const* SharedTokens::row(std::int64_t step, std::int64_t sequence) const {
    auto const rows = held_.find(step);
    auto const place = std::lower_bound(sequences_.begin(), sequences_.end(), sequence);
    EVENER_EXPECT(rows != held_.end() && place != sequences_.end() && *place == sequence);
    return rows->second.data() + static_cast<std::size_t>(place - sequences_.begin()) * 2 * length_;
}

void SharedTokens::read(std::int64_t step, std::int64_t sequence, std::span<std::int32_t> inputs,
                        std::span<std::int32_t> targets) const {
    if (own_ != nullptr)
        return own_->read(step, sequence, inputs, targets);
    std::int32_t const* const tokens = row(step, sequence);
    std::copy_n(tokens, length_, inputs.begin());
    std::copy_n(tokens + length_, length_, targets.begin());
}

std::int64_t SharedTokens::valid_targets(std::int64_t step, std::int64_t sequence) const {
    if (own_ != nullptr)
        return own_->valid_targets(step, sequence);
    std::int32_t const* const targets = row(step, sequence) + length_;
    return std::count_if(targets, targets + length_, [](std::int32_t token) { return token >= 0; });
}

} // namespace evener::runtime
