// SPDX-License-Identifier: Apache-2.0
#include "runtime/trainer.hpp"

#include "core/log.hpp"
#include "runtime/learning_rate.hpp"
#include "runtime/signals.hpp"

#include <chrono>
#include <cmath>

namespace evener::runtime {

std::int64_t count_tokens(comm::Communicator const& world, Session& session,
                          TokenSource const& tokens, std::int64_t step) {
    std::int64_t count = 0;
    for (core::Range const range : session.state().head_sequences)
        for (std::int64_t s = range.begin; s < range.end; ++s)
            count += tokens.valid_targets(step, s);
    return world.all_sum(std::vector<std::int64_t>{count}).front();
}

double evaluate(Session& session, TokenSource const& tokens, std::int64_t batches) {
    double loss = 0;
    std::int64_t count = 0;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
        session.state().step = batch;
        session.run_evaluate(tokens);
        loss += session.state().scalars.loss_sum;
        count += session.state().scalars.tokens;
    }
    if (count == 0)
        throw core::AgreedError{core::ExitCode::bad_input,
                                "no target of the data counts (all are masked by "
                                "'data.ignore_token'); check the data"};
    return loss / static_cast<double>(count);
}

Trainer::Trainer(TrainerInput input)
    : input_{std::move(input)}, session_{input_.session}, saver_{input_.mpi, session_,
                                                                 state_kinds(
                                                                     input_.job.optimizer.kind ==
                                                                     job::OptimizerKind::adamw)},
      reporter_{input_.job.log, input_.job.train.steps,
                session_.model().training_flops() *
                    static_cast<double>(input_.job.train.batch_size),
                input_.matrix_gflops} {
    if (!input_.job.log.gradients.empty())
        gradient_saver_.emplace(input_.mpi, session_,
                                std::vector<std::string>{std::string{kind_gradients}});
    if (input_.mpi.rank() == 0) {
        metrics_.emplace(input_.job.run.out + "/metrics.jsonl");
        metrics_->truncate_to_step(input_.state.step);
    }
}

void Trainer::run() {
    tokens_of_step_ = count_tokens(input_.mpi.world(), session_, input_.tokens, input_.state.step);
    std::int64_t const last = input_.job.train.steps;
    std::int64_t const every = input_.job.checkpoint.every;
    while (input_.state.step < last) {
        step();
        if (input_.state.step == last || (every > 0 && input_.state.step % every == 0))
            save();
    }
    reporter_.finish();
}

void Trainer::set_optimizer_scalars(double rate) {
    job::Optimizer const& optimizer = input_.job.optimizer;
    // Skipped steps did not touch the moments, so they do not count for the bias correction.
    auto const updates = static_cast<double>(input_.state.step + 1 - input_.state.nonfinite_steps);
    kernels::OptimizerScalars scalars;
    scalars.learning_rate = static_cast<float>(rate);
    scalars.beta1 = static_cast<float>(optimizer.beta1);
    scalars.beta2 = static_cast<float>(optimizer.beta2);
    scalars.epsilon = static_cast<float>(optimizer.epsilon);
    scalars.correction1 = static_cast<float>(1.0 - std::pow(optimizer.beta1, updates));
    scalars.correction2 = static_cast<float>(1.0 - std::pow(optimizer.beta2, updates));
    StepState& state = session_.state();
    state.not_decayed = scalars;
    scalars.decay = static_cast<float>(optimizer.weight_decay);
    state.decayed = scalars;
}

void Trainer::step() {
    auto const begin = std::chrono::steady_clock::now();
    if (tokens_of_step_ == 0)
        throw core::AgreedError{core::ExitCode::bad_input,
                                fmt::format("no target of step {} counts (all are masked by "
                                            "'data.ignore_token'); check the data",
                                            input_.state.step + 1)};
    double const rate = learning_rate(input_.job.optimizer, input_.state.step);
    StepState& state = session_.state();
    state.step = input_.state.step;
    state.loss_scale = 1.0f / static_cast<float>(tokens_of_step_);
    state.clip_norm = input_.job.optimizer.clip_norm;
    state.skip_nonfinite = input_.job.train.on_nonfinite != job::OnNonfinite::report;
    state.requests = input_.mpi.rank() == 0 ? take_requests() : 0;
    set_optimizer_scalars(rate);
    session_.run_train(input_.tokens);
    StepScalars const scalars = state.scalars;
    std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;

    if (input_.after_pass)
        input_.after_pass(input_.state.step + 1);
    if (gradient_saver_)
        write_gradients();
    if (!accept(scalars))
        ++input_.state.nonfinite_steps;
    ++input_.state.step;
    input_.state.samples_consumed += input_.job.train.batch_size;
    input_.state.tokens_consumed += scalars.tokens;
    tokens_of_step_ = scalars.next_tokens;

    io::MetricsRecord record;
    record.step = input_.state.step;
    record.loss = scalars.loss_sum / static_cast<double>(scalars.tokens);
    record.grad_norm = std::sqrt(scalars.squared_gradient_norm);
    record.lr = rate;
    record.tokens = input_.state.tokens_consumed;
    record.tokens_per_second = static_cast<double>(scalars.tokens) / seconds.count();
    record.step_seconds = seconds.count();
    std::int64_t const every = input_.job.train.validate_every;
    if (input_.validation != nullptr && every > 0 &&
        (record.step % every == 0 || record.step == input_.job.train.steps))
        record.val_loss = validate();
    reporter_.step(record);
    if ((scalars.requests & static_cast<std::int64_t>(Request::exchange_schedule)) != 0)
        exchange_schedule();
    if (metrics_)
        metrics_->append(record);
}

void Trainer::exchange_schedule() {
    reporter_.finish();
    if (!input_.exchange_schedule)
        return;
    if (std::optional<std::string> const csv = input_.exchange_schedule())
        input_.schedule_csv = *csv;
}

bool Trainer::accept(StepScalars const& scalars) {
    if (is_finite(scalars)) {
        skipped_in_a_row_ = 0;
        return true;
    }
    job::Train const& train = input_.job.train;
    std::int64_t const step = input_.state.step + 1;
    std::string const what =
        fmt::format("step {}: loss {} and gradient norm {} are not finite", step,
                    scalars.loss_sum / static_cast<double>(scalars.tokens),
                    std::sqrt(scalars.squared_gradient_norm));
    if (train.on_nonfinite == job::OnNonfinite::report) {
        reporter_.finish();
        core::log::root(core::log::Level::warn, "{}; the update was made all the same", what);
        return true;
    }
    ++skipped_in_a_row_;
    if (train.on_nonfinite == job::OnNonfinite::stop)
        throw core::AgreedError{core::ExitCode::internal,
                                what +
                                    " (nothing was updated or written); lower the learning rate, "
                                    "or set 'train.on_nonfinite' to \"skip\", and resume from the "
                                    "last checkpoint"};
    if (skipped_in_a_row_ > train.nonfinite_limit)
        throw core::AgreedError{
            core::ExitCode::internal,
            fmt::format("{} ({} steps in a row were skipped, 'train.nonfinite_limit' is {}); "
                        "lower the learning rate and resume from the last checkpoint",
                        what, skipped_in_a_row_, train.nonfinite_limit)};
    reporter_.finish();
    core::log::root(core::log::Level::warn, "{}; the step was skipped", what);
    return false;
}

double Trainer::validate() {
    std::int64_t batches = input_.validation->batches();
    if (input_.job.train.validation_batches > 0)
        batches = std::min(batches, input_.job.train.validation_batches);
    return evaluate(session_, *input_.validation, batches);
}

void Trainer::save() {
    auto const begin = std::chrono::steady_clock::now();
    saver_.save(input_.job.run.out,
                {.creator = input_.creator,
                 .state = input_.state,
                 .model = input_.model,
                 .kinds = {},
                 .tensors = {},
                 .job_toml = input_.job_toml,
                 .plan_toml = input_.plan_toml,
                 .schedule_csv = input_.schedule_csv},
                static_cast<int>(input_.job.checkpoint.keep));
    std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
    reporter_.finish(); // the progress bar's line
    core::log::root(core::log::Level::info, "saved {}/{} in {:.2f} s", input_.job.run.out,
                    checkpoints::step_folder_name(input_.state.step), seconds.count());
}

void Trainer::write_gradients() {
    checkpoints::TrainingState state = input_.state;
    ++state.step;
    gradient_saver_->save(input_.job.log.gradients,
                          {.creator = input_.creator,
                           .state = state,
                           .model = input_.model,
                           .kinds = {},
                           .tensors = {},
                           .job_toml = input_.job_toml,
                           .plan_toml = input_.plan_toml,
                           .schedule_csv = input_.schedule_csv},
                          0);
}

} // namespace evener::runtime
