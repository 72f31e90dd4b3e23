// cluster: tests of the table of codes and its document.
#include "everstep/cluster/finding_codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "everstep/base/string_view.h"
#include "everstep/cluster/finding.h"
#include "everstep/env/environment.h"
#include "everstep/env/file.h"

namespace everstep {
namespace {

// The sections "### EV101: ..." of the document, by code, each up to the next headline.
std::map<std::string, std::string> SectionsOf(const std::string& document) {
  std::map<std::string, std::string> sections;
  std::string code;
  std::istringstream lines(document);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind('#', 0) == 0) {
      code = line.rfind("### EV", 0) == 0 ? line.substr(4, line.find(':') - 4) : "";
    }
    if (!code.empty()) absl::StrAppend(&sections[code], line, "\n");
  }
  for (auto& [name, text] : sections) text.erase(text.find_last_not_of('\n') + 2);
  return sections;
}

TEST(FindingCodes, AreSortedUniqueAndWhole) {
  std::string_view before = "EV100";
  for (const FindingCode& code : FindingCodes()) {
    EXPECT_LT(before, code.code);
    EXPECT_EQ(code.code.size(), 5u);
    EXPECT_THAT(std::string(code.code.substr(0, 3)), testing::AnyOf("EV1", "EV2", "EV3", "EV4"))
        << "EV5xx are the resolvers'";
    EXPECT_FALSE(code.title.empty() || code.cause.empty() || code.cure.empty()) << code.code;
    EXPECT_EQ(FindCode(code.code), &code);
    before = code.code;
  }
  EXPECT_EQ(FindCode("EV999"), nullptr);
}

// With EVERSTEP_WRITE_DOCS=1 this prints the sections as they should be.
TEST(FindingCodes, TheDocumentHasEachOnceAndNoOthers) {
  const std::string path = absl::StrCat(EVERSTEP_DOCS, "/config-codes.md");
  const absl::StatusOr<std::string> document = ReadWholeFile(RealFileSystem(), path);
  ASSERT_TRUE(document.ok()) << document.status();
  const std::map<std::string, std::string> sections = SectionsOf(*document);
  std::string all;
  for (const FindingCode& code : FindingCodes()) {
    absl::StrAppend(&all, SectionOf(code), "\n");
    const auto found = sections.find(std::string(code.code));
    ASSERT_TRUE(found != sections.end()) << code.code << " has no section; add\n"
                                         << SectionOf(code);
    EXPECT_EQ(found->second, SectionOf(code));
  }
  for (const auto& [code, text] : sections) {
    if (code[2] < '5') EXPECT_NE(FindCode(code), nullptr) << code << " is of no finding";
  }
  if (GetEnvironment("EVERSTEP_WRITE_DOCS").has_value()) std::printf("%s", all.c_str());
}

TEST(Finding, ReadsAsOneLineWithCodePlaceAndCure) {
  Finding finding{"EV305", true, "task.index", 1, 63, "index 3", "give each its own"};
  EXPECT_EQ(finding.ToString(),
            "EV305: TF_CONFIG, task.index (line 1, column 63): index 3; give each its own");
  finding.where = "TF_CONFIG";
  EXPECT_EQ(finding.ToString(), "EV305: TF_CONFIG (line 1, column 63): index 3; give each its own");
  EXPECT_EQ(finding.ToString("a.json"),
            "EV305: a.json (line 1, column 63): index 3; give each its own");
  finding.where = "task.index";
  EXPECT_EQ(finding.ToString("a.json"),
            "EV305: a.json, task.index (line 1, column 63): index 3; give each its own");
  EXPECT_EQ((Finding{"EV401", false, "https_proxy", 0, 0, "is set", "unset it"}).ToString(),
            "EV401: https_proxy: is set; unset it");
}

}  // namespace
}  // namespace everstep
