// SPDX-License-Identifier: Apache-2.0
#include "app/job_tokens.hpp"

namespace evener::app {

JobTokens::JobTokens(comm::MpiSession const& mpi, JobData const& data, job::Job const& job,
                     runtime::Session const& session, checkpoints::TrainingState const& state) {
    if (data.train) {
        order_.emplace(data.train->samples(), job.run.seed, job.data.shuffle);
        own_train_.emplace(*data.train, *order_, job.train.batch_size, state.step,
                           state.samples_consumed);
    }
    if (data.validation)
        own_validation_.emplace(*data.validation, job.train.batch_size);
    runtime::FileReaders const readers{data.seen};
    if (readers.all_see())
        return;
    auto const share = [&](std::optional<runtime::SharedTokens>& shared, auto const& own) {
        shared.emplace(mpi.world(), readers, own ? &*own : nullptr, session.sequences_read(),
                       job.model.sequence_length);
    };
    share(shared_train_, own_train_);
    if (!job.data.validation.empty())
        share(shared_validation_, own_validation_);
}

runtime::TokenSource const& JobTokens::train() const {
    if (shared_train_)
        return *shared_train_;
    return *own_train_;
}

runtime::TokenSource const* JobTokens::validation() const {
    if (shared_validation_)
        return &*shared_validation_;
    return own_validation_ ? &*own_validation_ : nullptr;
}

} // namespace evener::app
