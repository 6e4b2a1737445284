package artifact

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// IgnoreFile is the file that, at the top of a workspace, says in the syntax of .gitignore what
// of it is not part of an answer. It is part of it itself, whatever it says.
const IgnoreFile = ".conclaveignore"

// maxIgnore bounds the ignore file, in bytes: an agent writes it.
const maxIgnore = 64 << 10

// alwaysIgnored are directories that tools make and can make again, and the
// litter of operating systems; and the long results of commands and of MCP
// servers, which are kept for the step that asked for them. A line such as !node_modules/ in the ignore file
// keeps one.
var alwaysIgnored = []string{
	".git/", "node_modules/", ".venv/", "venv/", "__pycache__/", "*.pyc", ".mypy_cache/", ".pytest_cache/",
	".ruff_cache/", ".tox/", ".npm/", ".cache/", ".gradle/", ".DS_Store", "Thumbs.db",
	"/command-output/", "/tool-results/",
}

// ignoring reads what is left out of the workspace.
func ignoring(root *os.Root) (func(path string, dir bool) bool, error) {
	patterns := make([]gitignore.Pattern, 0, len(alwaysIgnored))
	for _, line := range alwaysIgnored {
		patterns = append(patterns, gitignore.ParsePattern(line, nil))
	}
	lines, err := ignoreLines(root)
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		patterns = append(patterns, gitignore.ParsePattern(line, nil))
	}
	return matching(patterns), nil
}

func matching(patterns []gitignore.Pattern) func(path string, dir bool) bool {
	matcher := gitignore.NewMatcher(patterns)
	return func(path string, dir bool) bool { return matcher.Match(strings.Split(path, "/"), dir) }
}

// ignoreLines are the patterns of the ignore file. One that is no regular file
// has none.
func ignoreLines(root *os.Root) ([]string, error) {
	f, err := openRegular(root, IgnoreFile)
	if errors.Is(err, ErrNotFound) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", IgnoreFile, err)
	}
	defer f.Close()
	var lines []string
	scanner := bufio.NewScanner(io.LimitReader(f, maxIgnore))
	for scanner.Scan() {
		line := strings.TrimRight(scanner.Text(), "\r")
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	// A line that is too long for a pattern ends the list, as the limit does.
	return lines, nil
}
