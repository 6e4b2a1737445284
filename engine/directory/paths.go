package directory

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/step"
)

// workspaceAnywhere matches the beginning of a path to a session directory, which may have
// been moved since the answer was written.
const workspaceAnywhere = "[^\\s\"'`<>()\\[\\]{}|,;:=]*/"

// peerPaths rewrites texts for a step that numbers these agents.
type peerPaths struct {
	numbers map[string]int // numbers by agent ID
	pattern *regexp.Regexp // path of a workspace in the session directory
}

func newPeerPaths(dir string, agents []string) peerPaths {
	p := peerPaths{numbers: map[string]int{}}
	ids := make([]string, 0, len(agents))
	for i, id := range agents {
		p.numbers[id] = i + 1
		ids = append(ids, regexp.QuoteMeta(id))
	}
	p.pattern = regexp.MustCompile(fmt.Sprintf(
		`(?:%s)?\bagents/(%s)/[0-9]{3,6}/workspace\b`, step.RootPattern(workspaceAnywhere, dir), strings.Join(ids, "|")))
	return p
}

// rewrite replaces the paths of workspaces in the session directory with peers/agent<N>,
// which hides the agents' IDs.
func (p peerPaths) rewrite(text string) string {
	return p.pattern.ReplaceAllStringFunc(text, func(found string) string {
		number := p.numbers[p.pattern.FindStringSubmatch(found)[1]]
		if number == 0 {
			return found
		}
		return fmt.Sprintf("peers/agent%d", number)
	})
}

// numberedPeer matches the directory of a peer or the label of an answer.
var numberedPeer = regexp.MustCompile(`\b(peers/agent)([0-9]{1,4})\b|\bagent([0-9]{1,4})\.([0-9]+)\b`)

// renumber replaces the numbers in a text with the current numbers of the same agents. The
// claim of the step that wrote the text records those agents. Only labels that the step was
// shown are replaced.
func (p peerPaths) renumber(text string, c *artifact.Claim) string {
	if c == nil {
		return text
	}
	current := func(old string) (int, bool) {
		n, _ := strconv.Atoi(old)
		if n < 1 || n > len(c.Agents) {
			return 0, false
		}
		number, ok := p.numbers[c.Agents[n-1]]
		return number, ok
	}
	return numberedPeer.ReplaceAllStringFunc(text, func(found string) string {
		m := numberedPeer.FindStringSubmatch(found)
		if number, ok := current(m[2]); ok {
			return m[1] + strconv.Itoa(number)
		}
		if number, ok := current(m[3]); ok && slices.Contains(c.Labels, found) {
			return fmt.Sprintf("agent%d.%s", number, m[4])
		}
		return found
	})
}

// AdaptSpec adapts the spec of a step to a directory that other programs use too: the step
// claims a number by creating its directory.
func AdaptSpec(store *artifact.Dir, s step.Spec) step.Spec {
	s.Reserve = func(ctx context.Context, number int) (bool, error) {
		err := store.MakeDir(ctx, s.Dir(number)+"step.json")
		if errors.Is(err, artifact.ErrExists) {
			return false, nil
		}
		return err == nil, err
	}
	return s
}
