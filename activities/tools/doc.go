// Package tools implements the tools of an agent's step in one workspace directory: read_file,
// write_file, edit_file, list_files, search_files, copy_path, run_command, and the tools of MCP
// servers.
//
// Arguments come from a model, and files from anyone, so both are untrusted. All paths go through
// an os.Root. Only directories and regular files with a single name are opened. No file is written
// through a link, and peers/ is read-only. All results are bounded. If a tool refuses a call, its
// result is a sentence on which the model can act; Run returns errors only for faults of the host,
// such as a full disk.
//
// Start with Open in set.go, then fileTools in files.go and shell in shell.go. The descriptions for
// models are in engine/builtin.
package tools
