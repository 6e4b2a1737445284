package directory

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// paths turn where workspaces lie in a session directory into where a step reads
// them: peers/agent<N>. The rest of the path goes, and the agent's ID with it.
type paths struct {
	numbers map[string]int
	pattern *regexp.Regexp
}

// anywhere is the beginning of a path to a session directory that may have been
// somewhere else when the answer was given: as far as it looks like one.
const anywhere = "[^\\s\"'`<>()\\[\\]{}|,;:=]*/"

// paths knows the workspaces of the agents of the directory at dir.
func (d Directory) paths(dir string) paths {
	p := paths{numbers: map[string]int{}}
	for _, a := range d.Agents {
		p.numbers[a.ID] = a.Number
	}
	var roots []string
	for _, root := range []string{dir, resolved(dir)} {
		if root = strings.TrimSuffix(root, "/"); root != "" {
			roots = append(roots, regexp.QuoteMeta(root)+"/")
		}
	}
	p.pattern = regexp.MustCompile(fmt.Sprintf(`(?:%s)?\bagents/([a-z][a-z0-9_-]{0,31})/[0-9]{3,6}/workspace\b`, strings.Join(append(roots, anywhere), "|")))
	return p
}

// resolved is dir without links; dir itself where that cannot be told.
func resolved(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// shown is an answer's text as a step is shown it.
func (p paths) shown(text string) string {
	return p.pattern.ReplaceAllStringFunc(text, func(found string) string {
		number := p.numbers[p.pattern.FindStringSubmatch(found)[1]]
		if number == 0 {
			return found
		}
		return fmt.Sprintf("peers/agent%d", number)
	})
}
