package directory

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/artifact"
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

// pathsAt knows the workspaces of the agents of the directory at dir, in the order
// of their numbers.
func pathsAt(dir string, agents []string) paths {
	p := paths{numbers: map[string]int{}}
	for i, id := range agents {
		p.numbers[id] = i + 1
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

// numberedPeer matches what a text says of agents by their numbers: the directory of a
// peer, or an answer's label.
var numberedPeer = regexp.MustCompile(`\b(peers/agent)([0-9]{1,4})\b|\bagent([0-9]{1,4})\.([0-9]+)\b`)

// renumbered is a text of a step whose claim says whom its numbers stood for, with
// the numbers that those agents have now. Labels are labels only if the step was
// shown them.
func (p paths) renumbered(text string, c *artifact.Claim) string {
	if c == nil {
		return text
	}
	now := func(then string) (int, bool) {
		n, _ := strconv.Atoi(then)
		if n < 1 || n > len(c.Agents) {
			return 0, false
		}
		number, ok := p.numbers[c.Agents[n-1]]
		return number, ok
	}
	return numberedPeer.ReplaceAllStringFunc(text, func(found string) string {
		m := numberedPeer.FindStringSubmatch(found)
		if number, ok := now(m[2]); ok {
			return m[1] + strconv.Itoa(number)
		}
		if number, ok := now(m[3]); ok && slices.Contains(c.Labels, found) {
			return fmt.Sprintf("agent%d.%s", number, m[4])
		}
		return found
	})
}
