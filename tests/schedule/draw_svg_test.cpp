// SPDX-License-Identifier: Apache-2.0
#include "schedule/draw_parts.hpp"
#include "schedule/draw_support.hpp"
#include "schedule/subject.hpp"
#include "support/sizes.hpp"
#include "support/xml.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

namespace evener::schedule {
namespace {

using support::XmlElement;

std::vector<XmlElement> svg_of(Drawing const& drawing) {
    std::string const text = draw_svg(drawing);
    EXPECT_EQ(text.find("nan"), std::string::npos);
    EXPECT_EQ(text.find("inf"), std::string::npos);
    return support::read_xml(text);
}

std::vector<std::string> texts(std::vector<XmlElement> const& elements) {
    std::vector<std::string> found;
    for (XmlElement const& element : elements)
        if (element.name == "text")
            found.push_back(element.text);
    return found;
}

bool has_text(std::vector<XmlElement> const& elements, std::string const& part) {
    for (std::string const& text : texts(elements))
        if (text.find(part) != std::string::npos)
            return true;
    return false;
}

struct Bar {
    double begin = 0;
    double end = 0;
    double y = 0;
};

/// Thick strokes of that colour and width.
std::vector<Bar> bars(std::vector<XmlElement> const& elements, std::string_view colour,
                      double width) {
    std::vector<Bar> found;
    for (XmlElement const& element : elements) {
        if (element.name != "path" || element.attributes.at("stroke") != colour ||
            std::stod(element.attributes.at("stroke-width")) != width)
            continue;
        char const* at = element.attributes.at("d").c_str();
        while (*at == 'M') {
            char* next = nullptr;
            Bar bar;
            bar.begin = std::strtod(at + 1, &next);
            bar.y = std::strtod(next, &next);
            EXPECT_EQ(*next, 'H');
            bar.end = std::strtod(next + 1, &next);
            found.push_back(bar);
            at = next;
        }
        EXPECT_EQ(*at, '\0');
    }
    return found;
}

TEST(DrawSvg, IsWellFormedForAnyPlanAndTimes) {
    for (std::uint64_t const seed : support::seeds("svg", 200)) {
        support::Random random{seed};
        Subject const subject = random_subject(random);
        program::Timeline const a = one_after_the_other(subject.set, random);
        program::Timeline const b = one_after_the_other(subject.set, random);
        Drawing drawing{subject.set, "a <b> & \"c\" \x01", {{"measured", a}}, "d]]>"};
        if (random.chance(50))
            drawing.courses.push_back({"predicted", b});
        auto const elements = svg_of(drawing);
        EXPECT_EQ(elements.front().name, "svg");
        EXPECT_TRUE(has_text(elements, "a <b> & \"c\" \xef\xbf\xbd"));
        EXPECT_TRUE(has_text(elements, "d]]>"));
        EXPECT_EQ(has_text(elements, "than measured"), drawing.courses.size() > 1);
    }
}

// Two ranks, F on rank 0 from 1 to 3 s of 4, on rank 1 from 0 to 4: where the boxes must be.
TEST(DrawSvg, PutsBoxesWhereTheTimesAre) {
    program::ProgramSet set;
    set.plan.groups = {{.ranks = {core::RankId{0}}, .shares = {1}, .shard_weights = {1}},
                       {.ranks = {core::RankId{1}}, .shares = {1}, .shard_weights = {1}}};
    set.plan.chunks = {{core::GroupId{0}, {0, 1}}, {core::GroupId{1}, {1, 2}}};
    for (std::int64_t r = 0; r < 2; ++r)
        set.programs.push_back(
            {core::RankId{r},
             {{}},
             {},
             {{program::Forward{{core::ChunkId{r}, {r, r + 1}, core::MicrobatchId{7}, {0, 1}}},
               core::QueueId{0},
               {},
               {}}},
             0});
    program::Timeline const timeline{{{{1, 3}}, {{0, 4}}}};
    auto const elements = svg_of({set, "two", {{"predicted", timeline}}, ""});
    Layout const layout{2, 1};
    auto const x = [&](double seconds) {
        return layout.plot_begin + seconds / 4 * layout.plot_width();
    };
    auto const forwards = bars(elements, paints[0], layout.compute_height);
    ASSERT_EQ(forwards.size(), 2U);
    EXPECT_NEAR(forwards[0].begin, x(1), 0.01);
    EXPECT_NEAR(forwards[0].end, x(3) - 0.6, 0.01);
    EXPECT_NEAR(forwards[1].begin, x(0), 0.01);
    EXPECT_NEAR(forwards[1].end, x(4) - 0.6, 0.01);
    EXPECT_DOUBLE_EQ(forwards[1].y - forwards[0].y, layout.band_height() + layout.band_gap);
    auto const found = texts(elements);
    EXPECT_EQ(std::count(found.begin(), found.end(), "7"), 2);
    EXPECT_TRUE(has_text(elements, "4.00 s, busy 75.0 %, bubble 25.0 %"));
    EXPECT_EQ(std::count(found.begin(), found.end(), "50.0 %"), 1);
    EXPECT_EQ(std::count(found.begin(), found.end(), "100.0 %"), 1);
}

// A message of rank 0 that is ready from 0 s on, which rank 1 takes from 1 s on: drawn on both from
// then to its end, in the rows of sends and receives, and what waits for it is told from idle.
TEST(DrawSvg, DrawsMessagesWhileTheyAreUnderWay) {
    program::ProgramSet set;
    set.plan.groups = {{.ranks = {core::RankId{0}}, .shares = {1}, .shard_weights = {1}},
                       {.ranks = {core::RankId{1}}, .shares = {1}, .shard_weights = {1}}};
    set.plan.chunks = {{core::GroupId{0}, {0, 1}}, {core::GroupId{1}, {1, 2}}};
    program::Message message{
        {}, program::Direction::forward, core::ChunkId{0}, core::MicrobatchId{0}, {0, 1}, 8};
    program::Program sender{
        core::RankId{0}, {{program::QueueKind::send, core::RankId{1}}}, {}, {}, 0};
    message.peer = core::RankId{1};
    sender.instructions = {{program::Send{message}, core::QueueId{0}, {}, {}}};
    program::Program receiver{
        core::RankId{1}, {{program::QueueKind::receive, core::RankId{0}}, {}}, {}, {}, 0};
    message.peer = core::RankId{0};
    receiver.instructions = {
        {program::Receive{message}, core::QueueId{0}, {}, {}},
        {program::Forward{{core::ChunkId{1}, {1, 2}, core::MicrobatchId{0}, {0, 1}}},
         core::QueueId{1},
         {core::InstructionId{0}},
         {}}};
    set.programs = {sender, receiver};
    program::Timeline const timeline{{{{0, 2}}, {{1, 3}, {3, 4}}}};
    auto const elements = svg_of({set, "", {{"predicted", timeline}}, ""});
    Layout const layout{2, 1};
    Axis const axis{layout, 4};
    auto const expect_bar = [&](std::string_view colour, double width, double start, double end) {
        auto const found = bars(elements, colour, width);
        ASSERT_EQ(found.size(), 1U) << colour;
        EXPECT_NEAR(found[0].begin, axis.x(start), 0.01);
        EXPECT_NEAR(found[0].end, axis.x(end), 0.01);
    };
    expect_bar(paints[static_cast<std::size_t>(Paint::send)], layout.row_height - 1, 1, 2);
    expect_bar(paints[static_cast<std::size_t>(Paint::receive)], layout.row_height - 1, 1, 3);
    expect_bar(exposed_colour, layout.compute_height, 1, 3);
    double const send =
        bars(elements, paints[static_cast<std::size_t>(Paint::send)], layout.row_height - 1)[0].y;
    double const receive =
        bars(elements, paints[static_cast<std::size_t>(Paint::receive)], layout.row_height - 1)[0]
            .y;
    EXPECT_DOUBLE_EQ(receive - send, layout.band_height() + layout.band_gap + layout.row_height);
}

TEST(DrawSvg, GivesCopiesARowOfTheirOwn) {
    program::ProgramSet set;
    set.plan.groups = {{.ranks = {core::RankId{0}}, .shares = {1}, .shard_weights = {1}}};
    set.plan.chunks = {{core::GroupId{0}, {0, 1}, true}};
    program::Compute const work{core::ChunkId{0}, {0, 1}, core::MicrobatchId{0}, {0, 1}};
    program::Program program{core::RankId{0}, {}, {}, {}, 0};
    program.queues = {{program::QueueKind::copy_in, {}, {}},
                      {program::QueueKind::compute, {}, {}},
                      {program::QueueKind::copy_out, {}, {}}};
    program.instructions = {{program::Fetch{}, core::QueueId{0}, {}, {}},
                            {program::Recompute{work}, core::QueueId{1}, {}, {}},
                            {program::Evict{}, core::QueueId{2}, {}, {}}};
    set.programs = {program};
    auto const elements =
        svg_of({set, "", {{"predicted", program::Timeline{{{{0, 1}, {1, 3}, {2, 4}}}}}}, ""});
    Layout const layout{1, 1, true};
    Axis const axis{layout, 4};
    auto const bar = [&](Paint paint, double width, double start, double end) {
        auto const found = bars(elements, paints[static_cast<std::size_t>(paint)], width);
        EXPECT_EQ(found.size(), 1U) << paints[static_cast<std::size_t>(paint)];
        EXPECT_NEAR(found.at(0).begin, axis.x(start), 0.7); // a thin gap may end it
        EXPECT_NEAR(found.at(0).end, axis.x(end), 0.7);
        return found.at(0).y;
    };
    double const fetch = bar(Paint::fetch, layout.row_height - 1, 0, 1);
    double const again = bar(Paint::recompute, layout.compute_height, 1, 3);
    EXPECT_DOUBLE_EQ(bar(Paint::evict, layout.row_height - 1, 2, 4), fetch);
    EXPECT_DOUBLE_EQ(fetch - again, layout.compute_height / 2 + 3.5 * layout.row_height);
    for (std::string const name : {"F again", "fetch from pinned memory", "evict to it"})
        EXPECT_TRUE(has_text(elements, name)) << name;
}

// F of microbatch 0 on rank 0, then, past the messages, on rank 1.
TEST(DrawSvg, JoinsTheCriticalPath) {
    program::ProgramSet const set = chain(2, 1);
    program::Timeline const timeline = always_busy(set);
    std::vector<CriticalStep> steps;
    for (std::size_t r = 0; r < 2; ++r) {
        core::RankId const rank{static_cast<std::int64_t>(r)};
        for (std::size_t i = 0; i < set.programs[r].instructions.size(); ++i) {
            auto const& operation = set.programs[r].instructions[i].operation;
            if (std::holds_alternative<program::Forward>(operation) ||
                std::holds_alternative<program::Send>(operation))
                steps.push_back({{rank, core::InstructionId{static_cast<std::int64_t>(i)}},
                                 {0.25 + 0.5 * static_cast<double>(r), 0.5},
                                 Cause::wait});
        }
    }
    steps[0].span.end = 0.375;
    auto const elements = svg_of({set, "", {{"predicted", timeline, steps}}, ""});
    EXPECT_TRUE(has_text(elements, "critical path"));
    Layout const layout{2, 1};
    Axis const axis{layout, 1};
    std::vector<std::string> paths;
    for (XmlElement const& element : elements)
        if (element.name == "path" && element.attributes.at("stroke") == critical_colour)
            paths.push_back(element.attributes.at("d"));
    ASSERT_EQ(paths.size(), 2U); // the legend's and the path itself
    auto const x = [&](double seconds) { return coordinate(axis.x(seconds)); };
    std::string const& d = paths[1];
    EXPECT_TRUE(d.starts_with("M" + x(0.25) + " ")) << d;
    EXPECT_NE(d.find("L" + x(0.375) + " "), std::string::npos) << d;
    EXPECT_NE(d.find("L" + x(0.75) + " "), std::string::npos) << d;
    EXPECT_EQ(std::count(d.begin(), d.end(), 'L'), 3) << d; // the sends are left out
    EXPECT_FALSE(has_text(svg_of({set, "", {{"measured", timeline}}, ""}), "critical path"));
}

TEST(DrawSvg, NumbersEveryBoxOfASmallPlan) {
    program::ProgramSet const set = chain(4, 8);
    support::Random random{1};
    auto const found = texts(svg_of({set, "", {{"predicted", always_busy(set)}}, ""}));
    for (int m = 0; m < 8; ++m) // a forward and a backward on each rank; axes have numbers too
        EXPECT_GE(std::count(found.begin(), found.end(), fmt::to_string(m)), 2 * 4) << m;
}

TEST(DrawSvg, StatesTheDifferenceOfTwoTimes) {
    program::ProgramSet const set = chain(2, 3);
    program::Timeline const measured = always_busy(set);
    program::Timeline predicted = measured;
    for (auto& rank : predicted.ranks)
        for (program::Span& span : rank)
            span = {0.75 * span.start, 0.75 * span.end};
    EXPECT_TRUE(has_text(svg_of({set, "", {{"measured", measured}, {"predicted", predicted}}, ""}),
                         "250 ms (25.0 %) less than measured"));
    EXPECT_TRUE(has_text(svg_of({set, "", {{"measured", predicted}, {"predicted", measured}}, ""}),
                         "250 ms (33.3 %) more than measured"));
    EXPECT_TRUE(has_text(svg_of({set, "", {{"measured", measured}, {"predicted", measured}}, ""}),
                         "as measured"));
}

TEST(DrawSvg, StaysSmallWhereBoxesAreSmall) {
    program::ProgramSet const set = chain(64, 256);
    program::Timeline const timeline = always_busy(set);
    std::string const one = draw_svg({set, "", {{"predicted", timeline}}, ""});
    EXPECT_LT(one.size(), 4'000'000U);
    std::string const two =
        draw_svg({set, "", {{"measured", timeline}, {"predicted", timeline}}, ""});
    EXPECT_LT(two.size(), 6'000'000U);
    EXPECT_NO_THROW(support::read_xml(one));
    EXPECT_NO_THROW(support::read_xml(two));
}

// Boxes of a tenth of a pixel: nine forwards for each update. What is drawn covers all, in the
// colour of the forwards, and no more elements than pixels.
TEST(DrawSvg, MergesBoxesUnderAPixel) {
    program::ProgramSet set;
    set.plan.groups = {{.ranks = {core::RankId{0}}, .shares = {1}, .shard_weights = {1}}};
    set.plan.chunks = {{core::GroupId{0}, {0, 1}}};
    set.buckets.emplace_back();
    program::Program program{core::RankId{0}, {{}}, {}, {}, 0};
    program::Timeline timeline;
    timeline.ranks.emplace_back();
    for (std::int64_t i = 0; i < 10000; ++i) {
        program::Operation operation =
            program::Forward{{core::ChunkId{0}, {0, 1}, core::MicrobatchId{i}, {0, 1}}};
        if (i % 10 == 5)
            operation = program::UpdateParameters{core::BucketId{0}};
        program.instructions.push_back({operation, core::QueueId{0}, {}, {}});
        auto const at = static_cast<double>(i);
        timeline.ranks[0].push_back({at, at + 1});
    }
    set.programs = {program};
    Layout const layout{1, 1};
    auto const elements = svg_of({set, "", {{"predicted", timeline}}, ""});
    auto const forwards = bars(elements, paints[0], layout.compute_height);
    ASSERT_EQ(forwards.size(), 1U); // they all touch
    EXPECT_NEAR(forwards[0].begin, layout.plot_begin, 0.01);
    EXPECT_NEAR(forwards[0].end, layout.plot_end - 0.6, 0.01);
}

TEST(DrawSvg, DrawsNothingAndLittle) {
    program::ProgramSet set;
    program::Timeline timeline;
    EXPECT_TRUE(has_text(svg_of({set, "empty", {{"predicted", timeline}}, ""}), "empty"));
    set = chain(2, 1);
    for (program::Program& program : set.programs)
        program.instructions.clear();
    timeline.ranks.resize(2);
    EXPECT_TRUE(has_text(svg_of({set, "", {{"predicted", timeline}}, ""}), "rank 1"));
    set = chain(2, 1);
    for (std::size_t r = 0; r < 2; ++r) // all at once, without time
        timeline.ranks[r].assign(set.programs[r].instructions.size(), {0, 0});
    EXPECT_TRUE(has_text(svg_of({set, "", {{"predicted", timeline}}, ""}), "0 s"));
}

TEST(DrawSvg, LightensLaterChunks) {
    EXPECT_EQ(tint(Paint::forward, 0, 1), paints[0]);
    EXPECT_EQ(tint(Paint::forward, 0, 3), paints[0]);
    auto const sum = [](std::string const& colour) {
        return std::stol(colour.substr(1, 2), nullptr, 16) +
               std::stol(colour.substr(3, 2), nullptr, 16) +
               std::stol(colour.substr(5, 2), nullptr, 16);
    };
    EXPECT_LT(sum(tint(Paint::forward, 0, 3)), sum(tint(Paint::forward, 1, 3)));
    EXPECT_LT(sum(tint(Paint::forward, 1, 3)), sum(tint(Paint::forward, 2, 3)));
}

TEST(DrawFacts, WritesNumbersForPeople) {
    EXPECT_EQ(time_text(0), "0 s");
    EXPECT_EQ(time_text(12.34), "12.3 s");
    EXPECT_EQ(time_text(0.06125), "61.2 ms");
    EXPECT_EQ(time_text(4.5e-6), "4.50 µs");
    EXPECT_EQ(time_text(2e-9), "2.00 ns");
    EXPECT_EQ(percent_text(1, 3), "33.3 %");
    EXPECT_EQ(percent_text(0, 0), "0 %");
}

TEST(DrawFacts, EscapesForXml) {
    EXPECT_EQ(xml_text("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
    EXPECT_EQ(xml_text("tab\tµ–\x1f\xef\xbf\xbe."), "tab\tµ–\xef\xbf\xbd\xef\xbf\xbd.");
}

} // namespace
} // namespace evener::schedule
