// SPDX-License-Identifier: Apache-2.0
#pragma once

// A strict reader of the XML that pictures are made of: elements, attributes, text. Everything that
// is not well-formed is refused, and also comments, CDATA and document types, which have no place
// there.

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace evener::support {

struct XmlElement {
    std::string name;
    std::map<std::string, std::string> attributes; ///< with entities resolved
    std::string text; ///< of its own, entities resolved, without that of its children
};

/// All elements in the order in which they begin. Throws std::runtime_error that says what is wrong
/// and where.
std::vector<XmlElement> read_xml(std::string_view document);

} // namespace evener::support
