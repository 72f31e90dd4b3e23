// cli: records.
#include "everstep/cli/records.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/base/string_view.h"
#include "everstep/cli/command.h"
#include "everstep/data/idx.h"
#include "everstep/io/example.h"
#include "everstep/io/tfrecord.h"

namespace everstep {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMostValues = 16;  // of a list, for people
constexpr size_t kMostText = 64;     // bytes of a value shown as text

std::vector<int64_t> Int64sOf(const FeatureView& view) {
  std::vector<int64_t> values(static_cast<size_t>(view.size()));
  view.CopyInt64s(absl::MakeSpan(values));
  return values;
}

std::vector<float> FloatsOf(const FeatureView& view) {
  std::vector<float> values(static_cast<size_t>(view.size()));
  view.CopyFloats(absl::MakeSpan(values));
  return values;
}

std::vector<std::string_view> BytesOf(const FeatureView& view) {
  std::vector<std::string_view> values(static_cast<size_t>(view.size()));
  view.CopyBytes(absl::MakeSpan(values));
  return values;
}

std::string ForPeople(std::string_view bytes) {
  bool text = bytes.size() <= kMostText;
  for (char c : bytes) text = text && c >= ' ' && c <= '~';
  return text ? absl::StrCat("\"", absl::CEscape(ToAbsl(bytes)), "\"")
              : absl::StrCat("<", bytes.size(), " bytes>");
}

template <typename T>
std::string ForPeople(const std::vector<T>& values) {
  std::string list = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i == kMostValues) {
      absl::StrAppend(&list, " ... ", values.size() - i, " more");
      break;
    }
    if (i > 0) list += " ";
    if constexpr (std::is_same_v<T, std::string_view>) {
      list += ForPeople(values[i]);
    } else {
      absl::StrAppend(&list, values[i]);
    }
  }
  return list + "]";
}

std::string ForPeople(const FeatureView& view) {
  switch (view.kind()) {
    case FeatureView::Kind::kInt64:
      return ForPeople(Int64sOf(view));
    case FeatureView::Kind::kFloat:
      return ForPeople(FloatsOf(view));
    case FeatureView::Kind::kBytes:
      return ForPeople(BytesOf(view));
    default:
      return "missing";
  }
}

// {"int64": [...]}, {"float": [...]} or {"bytes": [base64 ...]}.
ordered_json ForScripts(const FeatureView& view) {
  ordered_json feature = ordered_json::object();
  if (view.kind() == FeatureView::Kind::kInt64) feature["int64"] = Int64sOf(view);
  if (view.kind() == FeatureView::Kind::kFloat) feature["float"] = FloatsOf(view);
  if (view.kind() == FeatureView::Kind::kBytes) {
    feature["bytes"] = ordered_json::array();
    for (std::string_view value : BytesOf(view)) {
      feature["bytes"].push_back(absl::Base64Escape(ToAbsl(value)));
    }
  }
  return feature;
}

// "bytes list, 1 value of 784 bytes": what a feature is, without its values.
std::string KindForPeople(const FeatureView& view) {
  std::string text = absl::StrCat(FeatureView::NameOf(view.kind()), ", ", view.size(),
                                  view.size() == 1 ? " value" : " values");
  if (view.kind() == FeatureView::Kind::kBytes && view.size() == 1) {
    absl::StrAppend(&text, " of ", BytesOf(view)[0].size(), " bytes");
  }
  return text;
}

struct Summary {
  int64_t records = 0;
  int64_t bytes = 0;
};

// Reads all of a file. `payloads`: their CRCs too, else the lengths only.
absl::StatusOr<Summary> Summarize(FileSystem& fs, const std::string& file, bool payloads) {
  EV_ASSIGN_OR_RETURN(RecordReader reader, RecordReader::Open(fs, file));
  Summary summary;
  summary.bytes = reader.file().size();
  std::string_view payload;
  while (true) {
    bool more = false;
    if (payloads) {
      EV_ASSIGN_OR_RETURN(more, reader.Next(&payload));
    } else {
      EV_ASSIGN_OR_RETURN(const int64_t length, reader.SkipNext());
      more = length >= 0;
    }
    if (!more) return summary;
    ++summary.records;
  }
}

std::string CountForPeople(const Summary& summary) {
  return absl::StrCat(summary.records, summary.records == 1 ? " record, " : " records, ",
                      summary.bytes, " bytes");
}

// The features of the first record, if it is an Example: name and what `describe` makes of it.
template <typename Describe>
absl::Status FirstFeatures(FileSystem& fs, const std::string& file, Describe describe) {
  EV_ASSIGN_OR_RETURN(RecordReader reader, RecordReader::Open(fs, file));
  std::string_view payload;
  EV_ASSIGN_OR_RETURN(const bool any, reader.Next(&payload));
  if (any) (void)ForEachFeature(payload, describe);  // other payloads are no error here
  return absl::OkStatus();
}

}  // namespace

absl::Status ListRecords(FileSystem& fs, const std::vector<std::string>& files, bool json,
                         std::ostream& out) {
  ordered_json list = ordered_json::array();
  for (const std::string& file : files) {
    EV_ASSIGN_OR_RETURN(const Summary summary, Summarize(fs, file, /*payloads=*/false));
    ordered_json features = ordered_json::object();
    std::string lines;
    EV_RETURN_IF_ERROR(FirstFeatures(fs, file, [&](std::string_view name, const FeatureView& view) {
      features[std::string(name)] = {{"kind", FeatureView::NameOf(view.kind())},
                                     {"values", view.size()}};
      absl::StrAppend(&lines, "  ", std::string(name), ": ", KindForPeople(view), "\n");
    }));
    list.push_back({{"file", file},
                    {"records", summary.records},
                    {"bytes", summary.bytes},
                    {"features", std::move(features)}});
    if (!json) out << file << ": " << CountForPeople(summary) << "\n" << lines;
  }
  if (json) out << list.dump(2, ' ', false, ordered_json::error_handler_t::replace) << "\n";
  return absl::OkStatus();
}

absl::Status VerifyRecords(FileSystem& fs, const std::vector<std::string>& files, bool json,
                           std::ostream& out) {
  ordered_json list = ordered_json::array();
  absl::Status first_error;
  for (const std::string& file : files) {
    const absl::StatusOr<Summary> summary = Summarize(fs, file, /*payloads=*/true);
    if (summary.ok()) {
      if (!json) out << file << ": OK, " << CountForPeople(*summary) << "\n";
      list.push_back(
          {{"file", file}, {"ok", true}, {"records", summary->records}, {"bytes", summary->bytes}});
      continue;
    }
    if (first_error.ok()) {
      first_error = summary.status();
    } else if (!json) {
      out << std::string(summary.status().message()) << "\n";  // the first one ends the program
    }
    list.push_back(
        {{"file", file}, {"ok", false}, {"error", std::string(summary.status().message())}});
  }
  if (json) out << list.dump(2, ' ', false, ordered_json::error_handler_t::replace) << "\n";
  return first_error;
}

absl::Status PrintRecords(FileSystem& fs, const std::string& file, int64_t limit, bool json,
                          std::ostream& out) {
  EV_ASSIGN_OR_RETURN(RecordReader reader, RecordReader::Open(fs, file));
  std::string_view payload;
  for (int64_t i = 0; limit < 0 || i < limit; ++i) {
    EV_ASSIGN_OR_RETURN(const bool more, reader.Next(&payload));
    if (!more) break;
    std::string line;
    ordered_json features = ordered_json::object();
    const absl::Status status =
        ForEachFeature(payload, [&](std::string_view name, const FeatureView& view) {
          if (json) {
            features[std::string(name)] = ForScripts(view);
          } else {
            absl::StrAppend(&line, " ", std::string(name), "=", ForPeople(view));
          }
        });
    if (json) {
      ordered_json record = {{"record", i}, {"bytes", payload.size()}};
      if (status.ok()) record["features"] = std::move(features);
      out << record.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << "\n";
    } else if (status.ok()) {
      out << "record " << i << ":" << line << "\n";
    } else {
      out << "record " << i << ": " << payload.size() << " bytes, not a tf.train.Example\n";
    }
    if (!out) return absl::UnavailableError("cannot write the output");
  }
  return absl::OkStatus();
}

namespace {

struct RecordsOptions {
  std::vector<std::string> files;
  std::string images, labels, output;
  int64_t limit = -1;
  bool json = false;
};

void AddImport(CLI::App& records, const std::shared_ptr<RecordsOptions>& o,
               Invocation* invocation) {
  CLI::App* import = records.add_subcommand("import", "Make a TFRecord file from another format");
  import->require_subcommand(1);
  CLI::App* idx = import->add_subcommand(
      "idx", "IDX files (MNIST and its kin; gzip or plain) to tf.train.Examples {image, label}");
  idx->add_option("--images", o->images, "images (unsigned bytes)")->required();
  idx->add_option("--labels", o->labels, "one label for each image")->required();
  idx->add_option("--output", o->output, "the TFRecord file to write")->required();
  idx->callback([o, invocation] {
    const absl::StatusOr<int64_t> count =
        ImportIdx(RealFileSystem(), o->images, o->labels, o->output);
    if (count.ok()) std::cout << o->output << ": " << *count << " examples\n";
    invocation->exit_code = Fail(WithOutput(AsBadData(count.status())));
  });
}

}  // namespace

namespace {
constexpr char kRecordsFooter[] = R"(Exit codes: 0 good, 2 usage, 65 damaged or not there.

Examples:
  everstep records import idx --images a-images.gz --labels a-labels.gz --output train.tfrecord
  everstep records ls train.tfrecord
  everstep records verify train.tfrecord
)";
}  // namespace

void AddRecords(CLI::App& app, Invocation* invocation) {
  CLI::App* records = app.add_subcommand("records", "Make, list, check and print TFRecord files");
  records->group("Data and checkpoints");
  records->require_subcommand(1);
  const auto o = std::make_shared<RecordsOptions>();
  AddImport(*records, o, invocation);

  records->footer(kRecordsFooter);
  CLI::App* ls = records->add_subcommand("ls", "Records, bytes, features of the first record");
  CLI::App* verify = records->add_subcommand("verify", "Check the checksum of every record");
  CLI::App* cat = records->add_subcommand("cat", "Print tf.train.Examples, a line each");
  for (CLI::App* verb : {ls, verify, cat}) {
    verb->add_option("FILE", o->files, "TFRecord file")->required();
    verb->add_flag("--json", o->json, "for scripts");
  }
  cat->add_option("-n", o->limit, "print the first N records only")->check(CLI::NonNegativeNumber);

  ls->callback([o, invocation] {
    invocation->exit_code =
        Fail(WithOutput(AsBadData(ListRecords(RealFileSystem(), o->files, o->json, std::cout))));
  });
  verify->callback([o, invocation] {
    invocation->exit_code =
        Fail(WithOutput(AsBadData(VerifyRecords(RealFileSystem(), o->files, o->json, std::cout))));
  });
  cat->callback([o, invocation] {
    absl::Status status;
    for (size_t i = 0; status.ok() && i < o->files.size(); ++i) {
      status = PrintRecords(RealFileSystem(), o->files[i], o->limit, o->json, std::cout);
    }
    invocation->exit_code = Fail(WithOutput(AsBadData(status)));
  });
}

}  // namespace everstep
