// Package tools has the tools of an agent's step on one workspace directory: read_file, write_file,
// edit_file, list_files, search_files, copy_path, the shell's run_command, and those of MCP servers.
// Open opens the tools that a Set selects.
//
// The arguments come from a model and the files from anyone, so both are untrusted: every path goes
// through an os.Root, only directories and regular files with one name are opened, nothing is written
// through a link, and every result is bounded. peers/, which holds the files of shown answers, is
// read-only. Commands run in a sandbox (package sandbox). Their output is shown without terminal
// sequences and host paths, and a long output is stored whole in command-output/, which is not part of
// answers. MCP servers are the operator's programs (package mcp).
//
// Arguments are validated against their schema first. A tool's objection is its result: a sentence
// that the model can act on. Run fails only for faults of the host, such as a full disk. The tools
// that end a step belong to the engine.
//
// Start with Open in set.go, then fileTools in files.go and shell in shell.go. Models see the
// descriptions in tools.json and run_command.json.
package tools
