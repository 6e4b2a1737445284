// Package tools are the ordinary tools of an agent's step, on one workspace
// directory: read_file, write_file, edit_file, list_files, search_files and
// copy_path, the shell's run_command, and those of MCP servers. Which of them a
// step has is said by a Set; OpenSet makes one set of tools of them.
//
// The arguments are a model's text and the files may be anyone's, so both are
// untrusted: every path goes through an os.Root, nothing but regular files with
// one name and directories is opened, nothing is written through a link, and
// every result is bounded. peers/, where the files of shown answers lie, is
// read-only. Commands run in a sandbox (package sandbox); their output is shown
// without what only a terminal understands and without paths of this machine,
// and the whole of a long one is kept in command-output/, which answers leave
// out. MCP servers are the operator's programs (package mcp).
//
// Arguments are checked against their schema before anything is done. What a tool
// has to object to is its result: a sentence that the model can act on. Run fails
// only for faults of the machinery, such as a full disk. The package knows no
// answers, votes or sessions; the tools by which a step ends belong to the engine.
//
// Start with OpenSet in set.go, then Files in files.go and shell in shell.go.
// tools.json and run_command.json are what models are told.
package tools
