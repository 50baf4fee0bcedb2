// SPDX-License-Identifier: Apache-2.0
#pragma once

// Messages are part of what a user gets, so tests compare them.

#include <gtest/gtest.h>

#include <source_location>
#include <string>
#include <string_view>

namespace evener::support {

namespace detail {

/// The text of the ErrorType that `statement` throws; a failed expectation and "" without one.
template <class ErrorType, class Statement>
std::string error_text(Statement&& statement, std::source_location where) {
    try {
        statement();
    } catch (ErrorType const& error) {
        return error.what();
    } catch (std::exception const& error) {
        ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line()))
            << "another type of error: " << error.what();
        return {};
    }
    ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line())) << "no error was thrown";
    return {};
}

} // namespace detail

/// Expects `statement()` to throw an ErrorType whose whole text is `message`.
template <class ErrorType, class Statement>
void expect_error(Statement&& statement, std::string_view message,
                  std::source_location where = std::source_location::current()) {
    std::string const text = detail::error_text<ErrorType>(statement, where);
    if (!text.empty() && text != message)
        ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line()))
            << "the message is\n  " << text << "\nand should be\n  " << message;
}

/// Expects `statement()` to throw an ErrorType whose text contains `part`.
template <class ErrorType, class Statement>
void expect_error_containing(Statement&& statement, std::string_view part,
                             std::source_location where = std::source_location::current()) {
    std::string const text = detail::error_text<ErrorType>(statement, where);
    if (!text.empty() && text.find(part) == std::string::npos)
        ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line()))
            << "the message is\n  " << text << "\nand should contain\n  " << part;
}

} // namespace evener::support
