// SPDX-License-Identifier: Apache-2.0
#include "job/toml_guard.hpp"

#include <fmt/format.h>

namespace evener::job {

namespace {

constexpr std::size_t most_name_parts = 20; // values nest 256 deep at most: 5,120 tables

enum class State { code, comment, basic_string, literal_string };

/// Walks over the text and knows strings and comments from the rest.
class Scanner {
  public:
    explicit Scanner(std::string_view text) : text_{text} {
        if (text_.starts_with("\xef\xbb\xbf")) // a byte order mark is allowed
            at_ = line_begin_ = 3;
    }

    std::optional<Refusal> run() {
        for (; at_ < text_.size(); ++at_) {
            char const c = text_[at_];
            if (state_ == State::code) {
                if (auto refusal = code(c))
                    return refusal;
            } else if (state_ != State::comment) {
                string(c);
            }
            if (c == '\n')
                new_line();
        }
        return std::nullopt;
    }

  private:
    std::optional<Refusal> code(char c) {
        if (c == '"' || c == '\'') {
            if (text_.substr(at_, 3) == std::string(3, c))
                return refusal(
                    "a string in three quotes; the strings of a job are one line each, in "
                    "\"...\" or '...'");
            state_ = c == '"' ? State::basic_string : State::literal_string;
        } else if (c == '#') {
            state_ = State::comment;
        } else if (c == '.') {
            if (++parts_ > most_name_parts)
                return refusal(fmt::format("a name has more than {} parts; the names of a job have "
                                           "at most 2, such as plan.groups",
                                           most_name_parts));
        } else if (std::string_view{",=[]{}\n"}.find(c) != std::string_view::npos) {
            parts_ = 1;
        } else if (static_cast<unsigned char>(c) >= 0x80) {
            return refusal(
                "not TOML: a character outside ASCII stands outside of a string; put text "
                "in quotes");
        }
        return std::nullopt;
    }

    void string(char c) {
        bool const is_basic = state_ == State::basic_string;
        if (c == '\\' && is_basic && at_ + 1 < text_.size() && text_[at_ + 1] != '\n')
            ++at_;
        else if (c == (is_basic ? '"' : '\''))
            state_ = State::code;
    }

    void new_line() {
        ++line_;
        line_begin_ = at_ + 1;
        state_ = State::code;
    }

    Refusal refusal(std::string message) const {
        int column = 1;
        for (char const c : text_.substr(line_begin_, at_ - line_begin_))
            column += (static_cast<unsigned char>(c) & 0xc0u) != 0x80u ? 1 : 0;
        return {line_, column, std::move(message)};
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::size_t line_begin_ = 0;
    int line_ = 1;
    State state_ = State::code;
    std::size_t parts_ = 1;
};

} // namespace

std::optional<Refusal> refuse_toml(std::string_view text) {
    return Scanner{text}.run();
}

} // namespace evener::job
