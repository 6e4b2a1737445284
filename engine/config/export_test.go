package config

import "errors"

// FileTools and ShellTool are the built-in tools that a tools step can use.
var FileTools, ShellTool = fileTools, shellTool

// Values is a document as JSON values, for tests of the schema.
func Values(text string) (any, error) {
	root, f := parseDocument([]byte(text))
	if f != nil {
		return nil, errors.New(f.message)
	}
	d := decoder{places: map[string]position{}}
	return d.any(root, ""), d.problems.sorted()
}
