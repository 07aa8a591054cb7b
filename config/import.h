// A document in lnetctl's schema to typed changes. Knows no YAML: load.h reads the text.
#pragma once
#include "config/load.h"

namespace ulnet::config {

/// Appends what `document` asks for to `out`: changes, mistakes, warnings. A document that is nothing at all asks for
/// nothing.
void import_document(const Doc& document, const std::string& file, ImportMode mode, Imported& out);

}  // namespace ulnet::config
