// Converts a document in lnetctl's schema to typed changes. The input is already parsed: load.h reads the YAML text.
#pragma once
#include "config/load.h"

namespace ulnet::config {

/// Appends the content of `document` to `out`: changes, mistakes, warnings. An empty document adds nothing.
void import_document(const Doc& document, const std::string& file, ImportMode mode, Imported& out);

}  // namespace ulnet::config
