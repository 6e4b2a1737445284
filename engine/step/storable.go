package step

import (
	"context"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// maxUnstorable is how often an action is turned down because of its files; the
// next time the step fails for it.
const maxUnstorable = 3

// storable are rules that confirm an action only if the files that belong to it
// can be stored. The agent made them, and can mend them.
type storable struct {
	loop.Rules
	ws      *workspace
	seal    func(loop.Action) (Sealed, error)
	refused *int
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
	_, err = s.ws.copy.Scan(ctx)
	if !unstorable(err) || *s.refused >= maxUnstorable {
		return loop.Update{}, err
	}
	*s.refused++
	return loop.Update{Messages: []llm.Message{{
		Role: llm.User,
		Content: "Nothing was submitted: the files of your workspace cannot be stored. " + err.Error() +
			". Mend that (" + ignoreHint + "), then submit again.",
	}}}, nil
}

const ignoreHint = "what a file .conclaveignore lists, as .gitignore does, is not part of the answer"
