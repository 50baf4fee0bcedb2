// SPDX-License-Identifier: Apache-2.0
#include "support/xml.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace evener::support {
namespace {

std::vector<XmlElement> read(std::string const& root) {
    return read_xml("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + root + "\n");
}

TEST(Xml, ReadsElementsAttributesAndText) {
    auto const elements =
        read("<a x=\"1 &lt; 2\" y=\"\">one <b/>two<c:d e-f=\"&quot;\">µ</c:d></a>");
    ASSERT_EQ(elements.size(), 3U);
    EXPECT_EQ(elements[0].name, "a");
    EXPECT_EQ(elements[0].text, "one two");
    EXPECT_EQ(elements[0].attributes,
              (std::map<std::string, std::string>{{"x", "1 < 2"}, {"y", ""}}));
    EXPECT_EQ(elements[1].name, "b");
    EXPECT_EQ(elements[2].text, "µ");
    EXPECT_EQ(elements[2].attributes.at("e-f"), "\"");
}

TEST(Xml, RefusesWhatIsNotWellFormed) {
    for (char const* root :
         {"", "<a>", "<a></b>", "<a/><b/>", "<a x=1/>", "<a x=\"1\" x=\"2\"/>", "<a x=\"<\"/>",
          "<a>&</a>", "<a>&nbsp;</a>", "<a>></a>", "<a>\x01</a>", "<a>\xff</a>", "<a>\xc0\x80</a>",
          "<a>\xed\xa0\x80</a>", "<a>\xef\xbf\xbf</a>", "<1/>", "<a", "<a>text", "text"})
        EXPECT_THROW(read(root), std::runtime_error) << root;
}

} // namespace
} // namespace evener::support
