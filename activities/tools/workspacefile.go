package tools

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// ReadFile reads a regular file of a workspace of at most so many bytes, under the
// rules of the file tools: nothing outside of the workspace, whatever the path says
// and links lead to, no file with several names, and nothing that could be waited
// for. If something is wrong with the file, objection is what a model is told. An
// error is a fault of the machinery.
func ReadFile(workspace, name string, most int64) (content []byte, objection string, err error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, "", fmt.Errorf("opening the workspace: %w", err)
	}
	defer func() { _ = root.Close() }()
	content, err = (&Files{root: root}).bytes(name, most)
	var refused refusal
	if errors.As(err, &refused) {
		return nil, refused.Error(), nil
	}
	return content, "", err
}

// bytes reads a file of at most so many bytes.
func (f *Files) bytes(name string, most int64) ([]byte, error) {
	clean, err := inside(name)
	if err != nil {
		return nil, err
	}
	file, _, err := f.open(clean)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	switch {
	case err != nil:
		return nil, explain(clean, err)
	case int64(len(content)) > most:
		return nil, refuse("%s has more than %s, which is too much", quote(clean), size(most))
	}
	return content, nil
}
