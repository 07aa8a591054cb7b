// Output of lnetctl 2.17.57, kept in golden/, for the tests beside this file.
#pragma once
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "config/load.h"

namespace ulnet::config {

inline void PrintTo(const Doc& doc, std::ostream* out) {
  *out << json_dump(to_json(doc));
}

inline std::string file_text(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::string golden_text(const std::string& name) {
  return file_text(std::string(ULNET_GOLDEN_DIR "/") + name + ".txt");
}

inline std::vector<Doc> documents_of(const std::string& text) {
  YamlText yaml = yaml_read(text, "test.yaml");
  for (const Problem& problem : yaml.errors) ADD_FAILURE() << problem_text(problem) << "\n" << text;
  return yaml.documents;
}

/// The only document of `text`.
inline Doc document_of(const std::string& text) {
  std::vector<Doc> documents = documents_of(text);
  EXPECT_EQ(documents.size(), 1u);
  return documents.empty() ? Doc() : documents[0];
}

inline std::string texts_of(const Problems& problems) {
  std::string out;
  for (const Problem& problem : problems) out += problem_text(problem) + "\n";
  return out;
}

}  // namespace ulnet::config
