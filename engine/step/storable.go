package step

import (
	"context"
	"fmt"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// maxUnstorable is how often an action is turned down because of its files; the
// next time the step fails for it.
const maxUnstorable = 3

// How many of the files that an answer leaves out are named, and how many
// characters are told of each and of why.
const (
	maxNamed     = 10
	maxNamedText = 200
)

// What the agent is told begins with these words, by which Learn knows it again.
const (
	unstorableFiles = "Nothing was submitted: the files of your workspace cannot be stored. "
	leftOutFiles    = "Nothing was submitted yet: these files are left out of your answer: "
)

const ignoreHint = "what a file .conclaveignore lists, as .gitignore does, is not part of the answer"

// storable are rules that confirm an action only if the files that belong to it
// can be stored, and if the agent knows which of them are left out. It made them,
// and can mend them.
type storable struct {
	loop.Rules
	ws      *workspace
	seal    func(loop.Action) (Sealed, error)
	refused *int // how often the files could not be stored
}

// Learn implements loop.Rules.
func (s storable) Learn(ctx context.Context, e loop.Entry) error {
	if n := len(e.Messages); e.Kind == loop.Updated && n > 0 {
		switch text := e.Messages[n-1].Content; {
		case strings.HasPrefix(text, unstorableFiles):
			*s.refused++
		case strings.HasPrefix(text, leftOutFiles):
			s.ws.toldLeftOut = true
		}
	}
	return s.Rules.Learn(ctx, e)
}

// Confirm implements loop.Rules.
func (s storable) Confirm(ctx context.Context, a loop.Action) (loop.Update, error) {
	update, err := s.Rules.Confirm(ctx, a)
	if err != nil || len(update.Messages) > 0 || update.Note != nil {
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
	case problem != nil && *s.refused < maxUnstorable:
		return tell(unstorableFiles + problem.Error() + ". Mend that (" + ignoreHint + "), then submit again."), nil
	case problem != nil:
		return loop.Update{}, nil // the commit fails for it
	}
	if left := s.ws.copy.Warnings(); len(left) > 0 && !s.ws.toldLeftOut {
		return tell(leftOutFiles + named(left) + ". Submit again if that is as it should be, or mend it first."), nil
	}
	return loop.Update{}, nil
}

func tell(text string) loop.Update {
	return loop.Update{Messages: []llm.Message{{Role: llm.User, Content: text}}}
}

// named lists what is left out, up to a number.
func named(left []artifact.Warning) string {
	var names []string
	for _, w := range left[:min(len(left), maxNamed)] {
		names = append(names, fmt.Sprintf("%.*q (%.*s)", maxNamedText, w.Path, maxNamedText, w.Problem))
	}
	list := strings.Join(names, ", ")
	if more := len(left) - maxNamed; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}
