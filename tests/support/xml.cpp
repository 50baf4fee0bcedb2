// SPDX-License-Identifier: Apache-2.0
#include "support/xml.hpp"

#include <fmt/format.h>

#include <cctype>
#include <stdexcept>

namespace evener::support {

namespace {

class Reader {
  public:
    explicit Reader(std::string_view document) : rest_{document}, size_{document.size()} {}

    std::vector<XmlElement> read() {
        check_characters();
        expect("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        require(take("<"), "a root element");
        element();
        require(rest_ == "\n", "the end after the root element");
        return std::move(elements_);
    }

  private:
    [[noreturn]] void fail(std::string const& what) const {
        throw std::runtime_error{fmt::format("byte {}: expected {} at \"{}\"", size_ - rest_.size(),
                                             what, rest_.substr(0, 40))};
    }
    void require(bool condition, std::string const& what) const {
        if (!condition)
            fail(what);
    }
    bool take(std::string_view text) {
        if (!rest_.starts_with(text))
            return false;
        rest_.remove_prefix(text.size());
        return true;
    }
    void expect(std::string_view text) { require(take(text), "'" + std::string{text} + "'"); }

    /// UTF-8 without overlong forms and surrogates, and only characters that XML allows.
    void check_characters() {
        std::string_view const all = rest_;
        for (std::size_t i = 0; i < all.size();) {
            auto const lead = static_cast<unsigned char>(all[i]);
            std::size_t const length = lead < 0x80             ? 1
                                       : (lead & 0xe0) == 0xc0 ? 2
                                       : (lead & 0xf0) == 0xe0 ? 3
                                       : (lead & 0xf8) == 0xf0 ? 4
                                                               : 0;
            rest_ = all.substr(i);
            require(length > 0 && i + length <= all.size(), "UTF-8");
            char32_t code = length == 1 ? lead : lead & (0xffu >> (length + 1));
            for (std::size_t k = 1; k < length; ++k) {
                auto const next = static_cast<unsigned char>(all[i + k]);
                require((next & 0xc0) == 0x80, "UTF-8");
                code = code << 6 | (next & 0x3f);
            }
            static constexpr char32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
            require(code >= lowest[length] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff),
                    "UTF-8");
            require(code == '\t' || code == '\n' ||
                        (code >= 0x20 && code != 0xfffe && code != 0xffff),
                    "a character of XML");
            i += length;
        }
        rest_ = all;
    }

    std::string name() {
        std::size_t length = 0;
        while (length < rest_.size() &&
               (std::isalnum(static_cast<unsigned char>(rest_[length])) || rest_[length] == '-' ||
                rest_[length] == ':' || rest_[length] == '_'))
            ++length;
        require(length > 0 && !std::isdigit(static_cast<unsigned char>(rest_[0])), "a name");
        std::string const found{rest_.substr(0, length)};
        rest_.remove_prefix(length);
        return found;
    }

    /// Characters up to one of `ends`, entities resolved.
    std::string characters(std::string_view ends) {
        std::string text;
        for (;;) {
            require(!rest_.empty(), "more text");
            if (ends.find(rest_[0]) != std::string_view::npos)
                return text;
            require(rest_[0] != '<' && rest_[0] != '>', "an escaped character");
            if (take("&amp;"))
                text += '&';
            else if (take("&lt;"))
                text += '<';
            else if (take("&gt;"))
                text += '>';
            else if (take("&quot;"))
                text += '"';
            else {
                require(rest_[0] != '&', "an entity");
                text += rest_[0];
                rest_.remove_prefix(1);
            }
        }
    }

    /// After its '<'.
    void element() {
        std::size_t const at = elements_.size();
        elements_.emplace_back();
        std::string const own = name();
        elements_[at].name = own;
        while (take(" ")) {
            std::string const attribute = name();
            expect("=\"");
            std::string const value = characters("\"");
            expect("\"");
            require(elements_[at].attributes.emplace(attribute, value).second,
                    "no second '" + attribute + "'");
        }
        if (take("/>"))
            return;
        expect(">");
        for (;;) {
            elements_[at].text += characters("<");
            if (take("</")) {
                expect(own + ">");
                return;
            }
            expect("<");
            element();
        }
    }

    std::string_view rest_;
    std::size_t size_;
    std::vector<XmlElement> elements_;
};

} // namespace

std::vector<XmlElement> read_xml(std::string_view document) {
    return Reader{document}.read();
}

} // namespace evener::support
