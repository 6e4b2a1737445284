package team

// The actions of a team member: the names of the workflow tools, the values of
// Task.Offered and the kinds of a loop.Action.
const (
	KindNewAnswer = "new_answer"
	KindVote      = "vote"
	KindStop      = "stop"   // where every agent owns a part
	KindSubmit    = "submit" // of an evaluating step
	KindRestart   = "restart_orchestration"
)

// kinds are the workflow tools that exist in a step of this purpose and mode,
// offered or not.
func (t Task) kinds() []string {
	switch {
	case t.Purpose == Present:
		return []string{KindNewAnswer}
	case t.Purpose == Evaluate:
		return []string{KindSubmit, KindRestart}
	case t.divided():
		return []string{KindNewAnswer, KindStop}
	default:
		return []string{KindNewAnswer, KindVote}
	}
}

// open returns the kinds of actions that the step can take now, in the order of
// kinds. It holds back a vote that would have nothing to choose from.
func (r *Rules) open() []string {
	var open []string
	for _, kind := range r.task.kinds() {
		if r.task.offers(kind) && (kind != KindVote || len(r.known.answers) > 0) {
			open = append(open, kind)
		}
	}
	return open
}
