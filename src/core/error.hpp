// SPDX-License-Identifier: Apache-2.0
#pragma once

// The errors a user can meet, one class per exit code, with their facts as members. Message
// grammar: what happened (why it is wrong) what to do; lower case, no full stop, values with units,
// names in quotes. Only `main` catches; a bug of ours is a ContractViolation, not one of these.

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace evener::core {

/// What the process returns. 75 means "stopped early and resumable" (EX_TEMPFAIL).
enum class ExitCode : int {
    done = 0,
    internal = 1,
    bad_input = 2,
    device = 3,
    communication = 4,
    file = 5,
    resumable = 75,
};

/// Base of every error with a message meant for the user.
class Error : public std::runtime_error {
  public:
    Error(ExitCode code, std::string const& message) : std::runtime_error{message}, code_{code} {}
    ExitCode code() const noexcept { return code_; }

  private:
    ExitCode code_;
};

/// An error that all ranks of a job know of and throw at the same place: it is printed once, and MPI
/// can end in order.
class AgreedError : public Error {
  public:
    using Error::Error;
};

/// A place in a text file; line and column count from 1, 0 = not known.
struct SourcePlace {
    std::string file;
    int line = 0;
    int column = 0;
};

/// One finding about the user's input, printed as `file:line:column: error: message`.
struct Finding {
    SourcePlace place;
    std::string message;
};

std::string to_string(Finding const& finding);

/// Everything that is wrong with the input, reported at once.
class ConfigError : public Error {
  public:
    explicit ConfigError(std::vector<Finding> findings);
    /// One finding without a place (a command line argument, a plan that cannot work).
    explicit ConfigError(std::string const& message);
    std::vector<Finding> const& findings() const noexcept { return findings_; }

  private:
    std::vector<Finding> findings_;
};

/// A file could not be read or written, or is not what it should be.
class IoError : public Error {
  public:
    IoError(std::string path, std::string const& message);
    std::string const& path() const noexcept { return path_; }

  private:
    std::string path_;
};

/// MPI said no, or a peer did not answer. `peer` is -1 where no peer is involved.
class CommError : public Error {
  public:
    CommError(int error_class, int peer, std::string const& message)
        : Error{ExitCode::communication, message}, error_class_{error_class}, peer_{peer} {}
    int error_class() const noexcept { return error_class_; }
    int peer() const noexcept { return peer_; }

  private:
    int error_class_;
    int peer_;
};

/// A device or its plug-in failed. After a fatal one the device must not be used again.
class DeviceError : public Error {
  public:
    DeviceError(int code, bool fatal, std::string const& message)
        : Error{ExitCode::device, message}, device_code_{code}, fatal_{fatal} {}
    int device_code() const noexcept { return device_code_; }
    bool fatal() const noexcept { return fatal_; }

  private:
    int device_code_;
    bool fatal_;
};

/// A checkpoint is damaged, incomplete, or of another model.
class CheckpointError : public Error {
  public:
    CheckpointError(std::string path, std::string const& message);
    std::string const& path() const noexcept { return path_; }

  private:
    std::string path_;
};

/// A bug of ours: a precondition or postcondition did not hold.
class ContractViolation : public std::logic_error {
  public:
    using std::logic_error::logic_error;
};

[[noreturn]] void contract_violation(char const* kind, char const* condition,
                                     std::source_location where = std::source_location::current());

} // namespace evener::core

/// Precondition of a caller inside Evener; always on (they are cheap and stand outside inner
/// loops).
#define EVENER_EXPECT(condition)                                                                   \
    ((condition) ? static_cast<void>(0)                                                            \
                 : ::evener::core::contract_violation("expected", #condition))

/// Postcondition of the code above it.
#define EVENER_ENSURE(condition)                                                                   \
    ((condition) ? static_cast<void>(0)                                                            \
                 : ::evener::core::contract_violation("did not ensure", #condition))
