package team

import (
	"context"
	"slices"
	"strings"
	"time"

	"conclave/engine/team/checklist"
)

// Task is everything a team member's step is made from.
type Task struct {
	Query string

	// SystemMessage is the agent's own configured one, possibly empty.
	SystemMessage string

	// Criteria guide the agent's judgement; there may be none.
	Criteria []Criterion

	// Answers are shown in the order given: at most one of each agent, the
	// agent's own included and not marked.
	Answers []Answer

	// Offered are the actions open to the step, kinds of its purpose and mode;
	// never empty. A vote is only given while there are answers to vote for.
	Offered []string

	// Tools are the names of the ordinary tools that are offered beside the
	// rules' own, at the opening. A call of any other tool is rejected; but of
	// those of MCP servers others may come and go while the step runs.
	Tools []string

	// Revote says that everyone's vote was fresh and the votes were split.
	Revote bool

	// Files says that the agent has a workspace and tools to work with files in
	// it, file tools or a shell, with the files of
	// the answers at peers/agent<N>/, and the texts of those that are Kept at
	// peers/agent<N>.md.
	Files bool

	// Window is the model's context window in tokens, 0 if it is not known. All
	// answers together are shown up to a quarter of it.
	Window int

	// Frame is a random delimiter made for this step, of letters, digits, "-" and
	// "_". Whoever wrote the answers cannot have known it.
	Frame string

	// Sensitivity is the voting sensitivity; empty means Lenient.
	Sensitivity string

	// Purpose is what the step is for: Coordinate, Present or Evaluate.
	Purpose string

	// Alone is a team of one: there are no other agents to speak of.
	Alone bool

	// Parts are every agent's part, and Subtask is this agent's, where the work
	// is divided. Both are the operator's words.
	Parts   []Part
	Subtask string

	// Messages are what people have said so far, in order.
	Messages []Message

	// Verdict is what a presenter is told of the decision; nil for other steps.
	Verdict *Verdict

	// Final is the answer that an evaluating step judges; nil for other steps.
	// Its files, too, are at peers/agent<N>/.
	Final *Answer

	// Previous is the attempt that the team begins again after; nil in the first.
	Previous *Previous

	// Soft is after how much work the agent is told to finish, 0 for never. Grace
	// is how much more it has from then on, until only its terminal calls are left.
	Soft, Grace time.Duration

	// Allowance is what the step may spend, over all entries learned.
	Allowance Allowance

	// Novelty is how different a new answer has to be from those shown; empty
	// means Lenient, which asks for nothing.
	Novelty string

	// Updates says which of the peers' answers reach the step while it works.
	Updates Updates

	// Checklist is nil where voting is not gated by one.
	Checklist *checklist.Policy

	// Look says what there is now; nil when nothing reaches the step. Its error
	// ends the attempt.
	Look func(context.Context) (News, error)

	// Fetch returns the answers that arrived, one for each, and puts what they have
	// under peers/.
	Fetch func(context.Context, []Arrival) ([]Answer, error)

	// Hear returns what people said, one message for each number.
	Hear func(context.Context, []int) ([]Message, error)
}

// The purposes of a step.
const (
	Coordinate = ""         // answer, vote or stop
	Present    = "present"  // make the final answer of what the team has
	Evaluate   = "evaluate" // judge the final answer
)

// How much better than the answers shown a new one has to be: the values of
// Task.Sensitivity, and all but the last those of Task.Novelty.
const (
	Lenient        = "lenient"
	Balanced       = "balanced"
	Strict         = "strict"
	ChecklistGated = "checklist_gated"
)

// Criterion is one evaluation criterion. Only Text is required.
type Criterion struct {
	Text         string
	Category     string
	VerifyBy     string
	AntiPatterns []string
}

// Part is what one agent owns of a divided task.
type Part struct {
	Number  int // the agent's anonymous number
	Subtask string
}

// Message is what a person said. Numbers count all messages of the session.
type Message struct {
	Number int
	Text   string
}

// Verdict is what a presenter is told of the decision. Label is empty where
// nothing was decided by votes.
type Verdict struct {
	Strategy string // WinnerPresent or Synthesize
	Label    string // the winning answer
	Votes    int    // fresh, for the winner
	Voters   int
	Tied     bool     // another answer had as many
	Reasons  []string // of the winner's voters
	Stops    []StopNote
}

// The strategies of a presenter.
const (
	WinnerPresent = "winner_present"
	Synthesize    = "synthesize"
)

// StopNote is how the owner of a part ended.
type StopNote struct {
	Number  int
	Status  string
	Summary string
}

// Previous is an earlier attempt of the team, and what its evaluation said. The
// files of its answer are counted as far as they are at peers/agent<N>/.
type Previous struct {
	Reason       string
	Instructions string
	Answer       Answer
}

// Allowance is what a step may spend, input and output tokens together; zero
// fields are no limit.
type Allowance struct {
	USD    float64
	Tokens int64
}

// Updates says which of the peers' new answers reach a step while it works.
type Updates struct {
	Mode           string // NoUpdates, Inject or Restart
	Most           int    // sources told of over the step; 0 for any number
	UntilChecklist bool   // no more after the first accepted checklist
}

// The modes of updates. A step whose agent has no answer yet is given
// NoUpdates, so that first answers are independent.
const (
	NoUpdates = ""
	Inject    = "inject"  // the step is told, and goes on
	Restart   = "restart" // the step ends, to begin again with what is new
)

// News is all there is, whether or not the step knows it.
type News struct {
	Arrivals []Arrival // the newest answer of each agent
	Messages []int     // numbers of what people said to this agent
	WrapUp   bool      // the session is about to end
}

// Arrival is an answer that can be shown.
type Arrival struct {
	Number int
	Label  string
	Step   int
}

// divided reports whether every agent owns a part of the work.
func (t Task) divided() bool {
	return len(t.Parts) > 0 || t.Subtask != ""
}

// The ordinary tools that prompts speak of.
const (
	runCommand   = "run_command"
	serverPrefix = "mcp__" // begins the names of the tools of MCP servers
)

// has reports whether a call of an ordinary tool goes to the tools. Those of MCP
// servers say themselves if one is not there.
func (t Task) has(tool string) bool {
	return slices.Contains(t.Tools, tool) || strings.HasPrefix(tool, serverPrefix)
}

// asksServers reports whether any of the tools are those of MCP servers.
func (t Task) asksServers() bool {
	return slices.ContainsFunc(t.Tools, func(tool string) bool { return strings.HasPrefix(tool, serverPrefix) })
}

func (t Task) offers(kind string) bool { return slices.Contains(t.Offered, kind) }

// owner is the agent's own number where its part tells, else 0.
func (t Task) owner() int {
	own := 0
	for _, p := range t.Parts {
		switch {
		case t.Subtask == "" || p.Subtask != t.Subtask:
		case own != 0:
			return 0
		default:
			own = p.Number
		}
	}
	return own
}
