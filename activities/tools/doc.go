// Package tools are the ordinary tools of an agent's step: read_file,
// write_file, edit_file, list_files, search_files and copy_path, confined to
// one workspace directory.
//
// The arguments are a model's text and the files may be anyone's, so both are
// untrusted: every path goes through an os.Root, nothing but regular files and
// directories is opened, nothing is written through a link, and every result is
// bounded. peers/, where the files of shown answers lie, is read-only.
//
// What a tool has to object to is its result: a sentence that the model can act
// on. Run fails only for faults of the machinery, such as a full disk. The
// package knows no answers, votes or sessions; the tools by which a step ends
// belong to the engine.
//
// Start with Files in files.go. tools.json is what models are told.
package tools
