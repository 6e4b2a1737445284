// Package tools implements the tools of an agent's step in one workspace directory: read_file, write_file,
// edit_file, list_files, search_files, copy_path, run_command, and the tools of MCP servers.
//
// Arguments come from a model, and files from anyone, so both are untrusted. All paths go through an os.Root.
// Only directories and regular files with a single name are opened. No file is written through a link, and
// peers/ is read-only. All results are bounded. If a tool refuses a call, its result is a sentence on which
// the model can act; Run returns errors only for faults of the host, such as a full disk.
//
// Start with Open in shell.go, then fileTools in path.go, which also has the rules for paths. The
// descriptions for models are in engine/llm.
//
// # Network
//
// A sandbox has no network of its own. ServeProxy in proxy.go connects its commands to the Destinations on the
// operator's list, each an exact host and port. The proxy accepts only the HTTP method CONNECT. It
// parses the requested destination with the same parser as the list and compares the parsed values.
// It resolves names itself, checks each address, and dials the address that it has checked, because
// a second lookup could return another.
package tools
