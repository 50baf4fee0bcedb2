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
    tokens.prepare(step);
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

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

DataFiles data_files(job::Job const& job) {
    return job.checkpoint.layout == job::Layout::shared ? DataFiles::shared : DataFiles::per_writer;
}

std::int64_t state_bytes(model::Model const& model, job::Job const& job) {
    return 4 * model.parameter_elements() *
           static_cast<std::int64_t>(state_kinds(has_adamw(job)).size());
}

} // namespace

Trainer::Trainer(TrainerInput input)
    : input_{std::move(input)}, session_{input_.session},
      saver_{{input_.mpi.world(), input_.mpi.node(), input_.may_write, data_files(input_.job)},
             session_,
             state_kinds(has_adamw(input_.job))},
      reporter_{input_.job.log, input_.job.train.steps,
                session_.model().training_flops() *
                    static_cast<double>(input_.job.train.batch_size),
                input_.matrix_gflops} {
    if (!input_.job.log.gradients.empty())
        gradient_saver_.emplace(SavingRanks{input_.mpi.world(), input_.mpi.node(), input_.may_write,
                                            data_files(input_.job)},
                                session_, std::vector<std::string>{std::string{kind_gradients}});
    if (input_.mpi.size() > 1 && !input_.prediction.seconds.empty())
        slow_ranks_.emplace(input_.prediction, input_.mpi.hosts());
    if (input_.mpi.rank() == 0) {
        metrics_.emplace(input_.job.run.out + "/metrics.jsonl");
        metrics_->truncate_to_step(input_.state.step);
        if (input_.deadline)
            time_limit_.emplace(*input_.deadline, state_bytes(session_.model(), input_.job));
    }
}

RunEnd Trainer::run() {
    tokens_of_step_ = count_tokens(input_.mpi.world(), session_, input_.tokens, input_.state.step);
    std::int64_t const first = input_.state.step;
    std::int64_t const last = input_.job.train.steps;
    bool stop = first < last && stop_before_training();
    try {
        while (input_.state.step < last && !stop) {
            std::int64_t const requests = step();
            stop = asks_for(requests, Request::stop);
            if (stop) {
                reporter_.finish();
                core::log::root(core::log::Level::info, "asked to stop: saving step {}",
                                input_.state.step);
            }
            bool const saving =
                stop || saves(input_.state.step) || asks_for(requests, Request::save);
            if (saving || saver_.active())
                enter(Phase::save);
            report(saver_.advance(requests));
            if (saving)
                save();
            enter(Phase::between);
        }
    } catch (core::AgreedError const&) { // all ranks are here: a save that runs is still good
        try {
            report(saver_.finish());
        } catch (core::AgreedError const& error) {
            core::log::root(core::log::Level::warn, "the save beside it failed: {}", error.what());
        }
        throw;
    }
    enter(Phase::save);
    report(saver_.finish());
    reporter_.finish();
    if (metrics_ && metrics_->unwritten() > 0)
        core::log::root(core::log::Level::warn,
                        "the last {} lines of metrics.jsonl could not be written and are lost",
                        metrics_->unwritten());
    if (input_.state.step >= last)
        return RunEnd::finished;
    say_how_to_go_on(input_.state.step > first);
    return RunEnd::stopped_early;
}

void Trainer::enter(Phase phase) {
    if (input_.status != nullptr)
        input_.status->enter(phase, input_.state.step + (phase == Phase::step ? 1 : 0));
}

bool Trainer::saves(std::int64_t step) const {
    std::int64_t const every = input_.job.checkpoint.every;
    return step == input_.job.train.steps || (every > 0 && step % every == 0);
}

bool Trainer::validates(std::int64_t step) const {
    std::int64_t const every = input_.job.train.validate_every;
    return input_.validation != nullptr && every > 0 &&
           (step % every == 0 || step == input_.job.train.steps);
}

/// What came while the job was loading; nothing is to be saved yet. Collective.
bool Trainer::stop_before_training() {
    std::int64_t const mine = asks_for(requests(), Request::stop) ? 1 : 0;
    return input_.mpi.world().all_max(std::vector<std::int64_t>{mine}).front() > 0;
}

/// What this rank asks for behind the step that begins.
std::int64_t Trainer::requests() {
    std::int64_t requests = take_requests(input_.mpi.rank());
    std::int64_t const every = input_.job.checkpoint.every_seconds;
    if (input_.mpi.rank() == 0 && every > 0 &&
        Clock::now() - last_save_ >= std::chrono::seconds{every})
        requests |= static_cast<std::int64_t>(Request::save);
    if (!time_limit_)
        return requests;
    std::int64_t const step = input_.state.step + 1;
    auto const words = time_limit_->last_step(
        {step, saves(step) || saver_.active(), validates(step), validates(step + 1)},
        std::chrono::steady_clock::now());
    if (words && step < input_.job.train.steps) {
        reporter_.finish();
        core::log::root(core::log::Level::info, "{}", *words);
        requests |= static_cast<std::int64_t>(Request::stop);
    }
    return requests;
}

void Trainer::say_how_to_go_on(bool trained) {
    if (!trained && time_limit_)
        core::log::root(
            core::log::Level::warn,
            "no step was made before the time limit; where the same limit ends the next "
            "start too, nothing will ever be trained: give it more time");
    core::log::root(core::log::Level::info,
                    "stopped early {} step {} of {}{}; the same command{} goes on from there",
                    trained ? "at" : "before", input_.state.step + (trained ? 0 : 1),
                    input_.job.train.steps, trained ? ", saved" : "",
                    input_.job.checkpoint.resume == "auto" ? "" : " with '--resume auto'");
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

/// Sets what the pass reads of the step.
void Trainer::prepare_step(double rate) {
    if (tokens_of_step_ == 0)
        throw core::AgreedError{core::ExitCode::bad_input,
                                fmt::format("no target of step {} counts (all are masked by "
                                            "'data.ignore_token'); check the data",
                                            input_.state.step + 1)};
    StepState& state = session_.state();
    state.step = input_.state.step;
    state.loss_scale = 1.0f / static_cast<float>(tokens_of_step_);
    state.clip_norm = input_.job.optimizer.clip_norm;
    state.skip_nonfinite = input_.job.train.on_nonfinite != job::OnNonfinite::report;
    state.requests = requests();
    state.late_requests = [this] { return saver_.requests(); };
    set_optimizer_scalars(rate);
}

std::int64_t Trainer::step() {
    auto const begin = Clock::now();
    validation_seconds_ = 0;
    double const rate = learning_rate(input_.job.optimizer, input_.state.step);
    prepare_step(rate);
    enter(Phase::step);
    session_.run_train(input_.tokens);
    if (input_.status != nullptr)
        input_.status->enter(Phase::between, input_.state.step + 1);
    StepScalars const scalars = session_.state().scalars;
    double const seconds = seconds_since(begin);
    if (slow_ranks_)
        slow_ranks_->note(session_.compute_seconds(), seconds);

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

    io::MetricsRecord record = record_of(scalars, rate, seconds);
    if (validates(record.step)) {
        enter(Phase::validate);
        record.val_loss = validate();
        enter(Phase::between);
    }
    reporter_.step(record);
    if (asks_for(scalars.requests, Request::exchange_schedule))
        exchange_schedule();
    if (metrics_)
        write_metrics(record);
    if (slow_ranks_ && slow_ranks_->due())
        name_slow_ranks();
    if (input_.watchdog != nullptr)
        input_.watchdog->note_step(seconds);
    if (time_limit_)
        time_limit_->note_step(seconds_since(begin) - validation_seconds_);
    return scalars.requests;
}

/// Of the step that has just ended.
io::MetricsRecord Trainer::record_of(StepScalars const& scalars, double rate,
                                     double seconds) const {
    io::MetricsRecord record;
    record.step = input_.state.step;
    record.loss = scalars.loss_sum / static_cast<double>(scalars.tokens);
    record.grad_norm = std::sqrt(scalars.squared_gradient_norm);
    record.lr = rate;
    record.tokens = input_.state.tokens_consumed;
    record.tokens_per_second = static_cast<double>(scalars.tokens) / seconds;
    record.step_seconds = seconds;
    return record;
}

/// Training is worth more than its log: what cannot be written waits.
void Trainer::write_metrics(io::MetricsRecord const& record) {
    bool const waited = metrics_->unwritten() > 0;
    std::string const failure = metrics_->append(record);
    if (failure.empty() == !waited)
        return;
    reporter_.finish();
    if (failure.empty())
        core::log::root(core::log::Level::info, "metrics.jsonl is written again, with all lines");
    else
        core::log::root(core::log::Level::warn,
                        "{}; training goes on, and the lines wait until there is room", failure);
}

void Trainer::exchange_schedule() {
    reporter_.finish();
    if (!input_.exchange_schedule)
        return;
    if (std::optional<std::string> const csv = input_.exchange_schedule())
        input_.schedule_csv = *csv;
}

/// Collective.
void Trainer::name_slow_ranks() {
    std::string const line = slow_ranks_->compare(input_.mpi.world());
    if (line.empty())
        return;
    reporter_.finish();
    core::log::root(core::log::Level::warn, "{}", line);
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
    std::int64_t batches = input_.validation_batches;
    if (input_.job.train.validation_batches > 0)
        batches = std::min(batches, input_.job.train.validation_batches);
    auto const begin = Clock::now();
    double const loss = evaluate(session_, *input_.validation, batches);
    validation_seconds_ = seconds_since(begin);
    if (time_limit_)
        time_limit_->note_validation(validation_seconds_);
    return loss;
}

void Trainer::save() {
    if (saver_.active()) {
        auto const begin = Clock::now();
        report(saver_.finish());
        core::log::root(core::log::Level::warn,
                        "step {} is to be saved: waited {:.2f} s for the save before it; save less "
                        "often, or where writing is faster",
                        input_.state.step, seconds_since(begin));
    }
    last_save_ = Clock::now();
    saver_.start(input_.job.run.out, description(input_.state),
                 {.newest = input_.job.checkpoint.keep, .every = input_.job.checkpoint.keep_every});
}

void Trainer::report(std::optional<SavedCheckpoint> const& saved) {
    if (!saved)
        return;
    if (time_limit_)
        time_limit_->note_save(saved->seconds);
    reporter_.finish(); // the progress bar's line
    core::log::root(core::log::Level::info,
                    "saved {} in {:.2f} s ({:.2f} s of them beside training)", saved->folder,
                    saved->seconds, saved->beside_seconds);
    if (!saved->deleted.empty())
        core::log::root(core::log::Level::info, "deleted {} ('checkpoint.keep' is {})",
                        fmt::join(saved->deleted, ", "), input_.job.checkpoint.keep);
}

checkpoints::Description Trainer::description(checkpoints::TrainingState const& state) const {
    return {.creator = input_.creator,
            .state = state,
            .model = input_.model,
            .kinds = {},
            .tensors = {},
            .job_toml = input_.job_toml,
            .plan_toml = input_.plan_toml,
            .schedule_csv = input_.schedule_csv};
}

void Trainer::write_gradients() {
    checkpoints::TrainingState state = input_.state;
    ++state.step;
    saver_.wait(); // HDF5 is not thread-safe
    gradient_saver_->save(input_.job.log.gradients, description(state), {});
}

} // namespace evener::runtime
