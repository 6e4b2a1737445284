package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
)

// Dir holds the checks of an answer, in its workspace and in the copy in which they run.
const Dir = artifact.ChecksDir

// listFile is the file that lists commands in a directory of checks.
const listFile = "checks.yaml"

// Limits of one directory of checks.
const (
	maxList    = 64 << 10 // most bytes of checks.yaml
	maxCommand = 16 << 10 // bytes of a command
	maxFiles   = 8 << 20  // bytes of all files
)

// Definition is one check.
type Definition struct {
	ID       string  `json:"id"` // hash of all but the name
	Name     string  `json:"name"`
	Command  string  `json:"command"` // command for sh -c in a copy of the answer's files
	ExitCode int     `json:"exit_code"`
	Stdout   *string `json:"stdout"` // nil for any
	User     bool    `json:"user,omitempty"`

	Files artifact.Manifest `json:"files"` // files of the directory of checks, under Dir
}

// listed is an entry of checks.yaml.
type listed struct {
	Name     string  `yaml:"name"`
	Command  string  `yaml:"command"`
	ExitCode int     `yaml:"exit_code"`
	Stdout   *string `yaml:"stdout"`
}

// Key returns the key of a check's definition in a session.
func Key(layout artifact.Layout, id string) string { return layout.File("checks/" + id + ".json") }

// Handed returns the files under Dir of an answer.
func Handed(answer artifact.Manifest) artifact.Manifest {
	var files artifact.Manifest
	for _, f := range answer.Files {
		if strings.HasPrefix(f.Path, Dir+"/") {
			files.Files = append(files.Files, f)
		}
	}
	return files
}

// Without returns the files of an answer except those below .conclave.
func Without(answer artifact.Manifest) artifact.Manifest {
	var files artifact.Manifest
	for _, f := range answer.Files {
		if f.Path != ".conclave" && !strings.HasPrefix(f.Path, ".conclave/") {
			files.Files = append(files.Files, f)
		}
	}
	return files
}

// Find returns the checks of a directory whose files lie under Dir, sorted by name. read
// returns the content of a file. The error names the file and the mistake.
func Find(ctx context.Context, files artifact.Manifest, user bool, read func(context.Context, artifact.File) ([]byte, error)) ([]Definition, error) {
	var found []Definition
	var size int64
	for _, f := range files.Files {
		size += f.Size
		name := strings.TrimPrefix(f.Path, Dir+"/")
		switch {
		case f.Link != "" || f.Dir || strings.Contains(name, "/"):
		case name == listFile:
			commands, err := readList(ctx, f, read)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", name, err)
			}
			found = append(found, commands...)
		case f.Mode&0o100 != 0:
			found = append(found, Definition{Name: name, Command: quoteWord("./" + f.Path)})
		}
	}
	if size > maxFiles {
		return nil, fmt.Errorf("the checks have %d bytes, at most %d are accepted", size, maxFiles)
	}
	slices.SortStableFunc(found, func(a, b Definition) int { return strings.Compare(a.Name, b.Name) })
	for i := range found {
		found[i].Files, found[i].User = files, user
		found[i].ID = found[i].contentHash()
	}
	return slices.CompactFunc(found, func(a, b Definition) bool { return a.ID == b.ID }), nil
}

// OfUser returns the checks of a user's directory. The error names the mistake.
func OfUser(ctx context.Context, files artifact.Manifest, read func(context.Context, artifact.File) ([]byte, error)) ([]Definition, error) {
	found, err := Find(ctx, Place(files), true, read)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, errors.New("the directory has neither an executable file nor checks.yaml; links and subdirectories do not count")
	case len(found) > coordination.MaxSessionChecks:
		return nil, fmt.Errorf("%d are too many, at most %d are accepted", len(found), coordination.MaxSessionChecks)
	}
	return found, nil
}

func readList(ctx context.Context, f artifact.File, read func(context.Context, artifact.File) ([]byte, error)) ([]Definition, error) {
	if f.Size > maxList {
		return nil, fmt.Errorf("%d bytes are too many, at most %d are accepted", f.Size, maxList)
	}
	data, err := read(ctx, f)
	if err != nil {
		return nil, err
	}
	return Parse(data)
}

// Parse reads the commands of checks.yaml. They have neither IDs nor files.
func Parse(data []byte) ([]Definition, error) {
	var list []listed
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("want a list of {name, command, exit_code, stdout}: %s", strings.ReplaceAll(err.Error(), " in type check.listed", ""))
	}
	found := make([]Definition, 0, len(list))
	for i, l := range list {
		switch {
		case strings.TrimSpace(l.Command) == "" || strings.ContainsRune(l.Command, 0):
			return nil, fmt.Errorf("entry %d has no command", i+1)
		case len(l.Command) > maxCommand:
			return nil, fmt.Errorf("the command of entry %d has %d bytes, at most %d are accepted", i+1, len(l.Command), maxCommand)
		}
		d := Definition{Name: l.Name, Command: l.Command, ExitCode: l.ExitCode, Stdout: l.Stdout}
		if d.Name == "" {
			d.Name = fmt.Sprintf("%s %d", listFile, i+1)
		}
		found = append(found, d)
	}
	return found, nil
}

func (d Definition) contentHash() string {
	d.ID, d.Name = "", ""
	data, _ := json.Marshal(d) // a Definition always has a JSON form
	return artifact.SumOf(data)[:32]
}

func quoteWord(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// Place puts the files of a user's directory under Dir.
func Place(files artifact.Manifest) artifact.Manifest {
	placed := artifact.Manifest{Files: slices.Clone(files.Files)}
	for i := range placed.Files {
		placed.Files[i].Path = path.Join(Dir, placed.Files[i].Path)
	}
	return placed
}

// ResultKey returns the key of a check's outcome on an answer. Equal answers share it.
func ResultKey(layout artifact.Layout, manifest, text, id string) string {
	return layout.File("checks/results/" + artifact.SumOf([]byte(manifest + "\x00" + text))[:32] + "/" + id + ".json")
}
