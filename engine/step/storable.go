package step

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// maxUnstorable is the number of actions that are withdrawn because of their files before the
// step fails.
const maxUnstorable = 3

// Bounds of the list of files left out of an answer.
const (
	maxNamed     = 10
	maxNamedText = 200 // characters of a path and of a problem
)

const ignoreHint = "files that .conclaveignore lists, as in a .gitignore, are not part of the answer"

// fileNote is the note of an update about files of the workspace.
type fileNote struct {
	Files fileProblem `json:"workspace_files"`
}

// fileProblem is the reason for withdrawing an action.
type fileProblem string

const (
	unstorable fileProblem = "unstorable"
	leftOut    fileProblem = "left_out"
)

// storable wraps rules. It confirms an action only if its files can be stored and the agent
// has been told which files are left out, since the agent can correct both.
type storable struct {
	loop.Rules
	ws      *workspace
	seal    func(loop.Action) (Sealed, error)
	refused int  // actions withdrawn as unstorable
	warned  bool // the agent was told the files left out
}

// Learn implements loop.Rules. It does not pass its own notes to the wrapped rules.
func (s *storable) Learn(ctx context.Context, e loop.Entry) error {
	var n fileNote
	if e.Kind == loop.Updated && len(e.Note) > 0 && json.Unmarshal(e.Note, &n) == nil && n.Files != "" {
		e.Note = nil
		if n.Files == unstorable {
			s.refused++
		}
		s.warned = s.warned || n.Files == leftOut
	}
	return s.Rules.Learn(ctx, e)
}

// Confirm implements loop.Rules.
func (s *storable) Confirm(ctx context.Context, a loop.Action) (loop.Update, error) {
	update, err := s.Rules.Confirm(ctx, a)
	if err != nil || len(update.Messages) > 0 || update.Note != nil || update.Ruling != nil {
		return update, err
	}
	sealed, err := s.seal(a)
	if err != nil || !sealed.Workspace {
		return loop.Update{}, err
	}
	problem, err := s.ws.check(ctx)
	switch {
	case err != nil:
		return loop.Update{}, err
	case problem != nil && s.refused < maxUnstorable:
		return withdraw(unstorable, "Nothing was submitted: the files of your workspace cannot be stored. "+problem.Error()+". Correct that ("+ignoreHint+"), then submit again.")
	case problem != nil:
		return loop.Update{}, nil // the commit fails with the problem
	}
	if left := s.ws.copy.Warnings(); len(left) > 0 && !s.warned {
		return withdraw(leftOut, "Nothing was submitted yet: these files are left out of your answer: "+list(left)+". Submit again if that is as it should be, or correct it first.")
	}
	return loop.Update{}, nil
}

func withdraw(why fileProblem, text string) (loop.Update, error) {
	note, err := json.Marshal(fileNote{Files: why})
	return loop.Update{Messages: []llm.Message{{Role: llm.User, Content: text}}, Note: note}, err
}

// list returns the names of the first files left out, with their problems.
func list(left []artifact.Warning) string {
	var names []string
	for _, w := range left[:min(len(left), maxNamed)] {
		names = append(names, fmt.Sprintf("%.*q (%.*s)", maxNamedText, w.Path, maxNamedText, w.Problem))
	}
	text := strings.Join(names, ", ")
	if more := len(left) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
