package session

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/session/quality"
	"conclave/engine/text"
)

// task is the input of a step's rules. It names agents by anonymous numbers only,
// so nothing that the rules produce can name an ID, a model or a provider.
type task struct {
	Query    string
	Pictures []Picture
	Turns    []artifact.Turn       // earlier turns of the conversation, the oldest first
	Wishes   string                // instructions of the caller; may be empty
	Offered  []coordination.Action // actions open to the step; never empty

	Purpose       coordination.Purpose
	SystemMessage string          // the agent's own, from the configuration; may be empty
	Persona       string          // the agent's, made for this task; may be empty
	Sensitivity   string          // sensitivity of voting; empty means lenient
	Novelty       string          // required difference of a new answer from those shown; empty means lenient, any difference
	Criteria      config.Criteria // criteria; may be empty
	Checklist     *quality.Policy // nil where voting is not gated by one
	Revote        bool            // all votes were fresh and split
	TextAnswers   string          // whether text without a call counts; empty means never
	Think         bool            // the agent is asked to reason in text before it calls a tool
	Agree         string          // the comparison that finds equal answers
	ShowAgreement bool            // prompts name equal answers
	Confidence    bool            // voters say how sure they are
	HandsIn       bool            // checks that come with an answer are run
	Schema        *llm.DataSchema // of the data that an answer is; nil for a text

	marks
	ownership
	shown
	reviewed
	equipment
	limits

	Inbox inbox // nil when nothing reaches the running step
}

// ownership describes who owns which work: in a team of one, and in divided work.
type ownership struct {
	Alone   bool   // a team of one
	Subtask string // this agent's part, where the work is divided
	Parts   []part // every agent's part
}

// part is one agent's part of divided work.
type part struct {
	Number  int
	Subtask string
}

// shown is the material that the opening shows.
type shown struct {
	Answers  []answer            // at most one answer of each agent; the agent's own is included and not marked
	Messages []message           // human messages so far, in order
	Checks   *checks             // the outcomes of checks on the answers; nil without any
	Brief    *coordination.Brief // the decision, for a presenter; else nil
	Final    *answer             // the answer that an evaluating step judges; else nil
	Previous *previous           // the team's previous attempt; nil in the first
}

// reviewed is the evaluation of the agent's newest answer for its next step. It is zero
// without one. In an evaluating step only Pressure is set.
type reviewed struct {
	Packet    string // text of critique_packet.md
	PacketDir string // its directory in the workspace of an agent with files
	Label     string // label of the answer
	Objective string // aim of the tasks; empty without valid ones
	Shift     string // the change of approach; may be empty
	Plan      []quality.PlanTask
	Pressure  string // pressure on an evaluating step: gentle, balanced or aggressive
}

// equipment is the agent's workspace, tools and model.
type equipment struct {
	// Files is set if the agent has file tools or a shell on a workspace with the answers'
	// files at peers/agent<N>/ and the texts of Kept answers at peers/agent<N>.md.
	Files  bool
	Tools  []string // names of the ordinary tools at the opening; those of MCP servers may change later
	Window int      // context window of the model in tokens; 0 if unknown

	Based      bool     // the workspace starts with the session's base
	BaseDir    string   // the unchanged base, in the workspace
	ContextDir string   // has the Contexts, in the workspace
	Contexts   []string // names of directories with further material
	MemoFile   string   // has the verification memos of all answers; empty for none

	// Manifest returns the hash of the manifest of the agent's files, or "" if there are
	// none. It is nil for a step without a workspace.
	Manifest func(context.Context) (string, error)
}

// limits bound a step's work, spending and updates.
type limits struct {
	Soft      time.Duration // work after which the agent is told to finish; 0 for never
	Grace     time.Duration // further work until only calls that end the step are open
	Allowance coordination.Allowance
	Updates   coordination.Updates
}

// answer is one answer as the agent is shown it.
type answer struct {
	Number int    // the agent's anonymous number, from 1
	Label  string // agent<Number>.<revision>
	Step   int
	Text   string
	Files  int  // number of files in its workspace; with a base, of those that it has changed
	Kept   bool // the whole text is at peers/agent<Number>.md, in the form of wholeText

	Changed  []changedFile // changed files of a base
	Replaced bool          // files of a newer answer are mounted at its place

	Manifest string // hash of the manifest of its files; empty without files
	Raw      string // the text with its author's original paths; empty if Text has them
	Digest   coordination.Digest
	Data     llm.Data    // zero for a text
	Saw      map[int]int // the answers that its author was shown, as steps by agent number
	Memo     string      // its verification memo, with paths as its reader finds them; may be empty
}

// changedFile is a file that an answer has added (A), modified (M) or deleted (D).
type changedFile struct {
	Kind string
	Path string
}

func (a answer) authorName() string { return agentName(a.Number) }

func (a answer) toArrival() arrival { return arrival{Number: a.Number, Label: a.Label, Step: a.Step} }

func agentName(number int) string { return fmt.Sprintf("agent%d", number) }

// message is a human message. Numbers count all messages of the session.
type message struct {
	Number int
	Text   string
}

// previous is the team's previous attempt. The files of its answer are counted if they are at
// peers/agent<N>/.
type previous struct {
	restart
	Answer answer
}

// inbox provides the answers and messages that arrive while the step runs. Its errors end the
// attempt.
type inbox interface {
	// news lists everything that is available, including material that the step already has.
	news(ctx context.Context) (news, error)

	// fetch returns one answer for each arrival, in order, and mounts its files.
	fetch(ctx context.Context, arrivals []arrival) ([]answer, error)

	// messages returns one message for each number, in order.
	messages(ctx context.Context, numbers []int) ([]message, error)
}

// news is everything that is available to the step at a safe point.
type news struct {
	Arrivals []arrival // the newest answer of each agent
	Messages []int     // numbers of the messages to this agent
	WrapUp   bool      // the session is about to end
}

// arrival refers to an answer.
type arrival struct {
	Number int    `json:"number"`
	Label  string `json:"label"`
	Step   int    `json:"step"`
	Seq    int    `json:"seq,omitempty"` // answers accepted later have higher ones; 0 if unknown
}

// ChecklistGated is the voting sensitivity that uses a checklist.
const ChecklistGated = "checklist_gated"

func (t task) isDivided() bool { return len(t.Parts) > 0 || t.Subtask != "" }

// The ordinary tools that prompts mention.
const (
	runCommand   = "run_command"
	serverPrefix = "mcp__" // begins the names of MCP servers' tools
)

// hasTool reports whether a call goes to the ordinary tools. Unknown names that look like tools
// of MCP servers are included, because the servers reject them.
func (t task) hasTool(tool string) bool {
	return slices.Contains(t.Tools, tool) || strings.HasPrefix(tool, serverPrefix)
}

func (t task) offersAction(action coordination.Action) bool {
	return slices.Contains(t.Offered, action)
}

// stepActions lists the workflow tools of this purpose and mode, offered or not.
func (t task) stepActions() []coordination.Action {
	switch {
	case t.Purpose == coordination.Present:
		return []coordination.Action{coordination.NewAnswer}
	case t.Purpose == coordination.Evaluation:
		return []coordination.Action{coordination.SubmitEvaluation}
	case t.Purpose == coordination.Evaluate:
		return []coordination.Action{coordination.Submit, coordination.RestartTeam}
	case t.isDivided():
		return []coordination.Action{coordination.NewAnswer, coordination.Stop}
	default:
		return []coordination.Action{coordination.NewAnswer, coordination.Vote}
	}
}

// ownNumber returns the agent's own number if its part is unique, and otherwise 0.
func (t task) ownNumber() int {
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

var revisionForm = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)

// parseRevision returns the ordinal in a label of the agent with the given number, or 0 if the
// label has another form.
func parseRevision(number int, label string) int {
	text, ok := strings.CutPrefix(label, agentName(number)+".")
	if !ok || number < 1 || !revisionForm.MatchString(text) {
		return 0
	}
	n, _ := strconv.Atoi(text)
	return n
}

// checkLabel refuses everything but anonymous labels in prompts and enums.
func checkLabel(number int, label string) error {
	if parseRevision(number, label) == 0 {
		return fmt.Errorf("answer of number %d has label %q: want agent<number>.<revision>", number, label)
	}
	return nil
}

// checkOffer refuses a task that offers no possible action, or that has a label that could break
// anonymity.
func (t task) checkOffer() error {
	actions := t.stepActions()
	for _, offered := range t.Offered {
		if !slices.Contains(actions, offered) {
			return fmt.Errorf("offered action %q: want one of %q", offered, actions)
		}
	}
	if strings.TrimSpace(t.Query) == "" {
		return errors.New("the query is empty")
	}
	if !slices.ContainsFunc(t.Offered, func(a coordination.Action) bool { return a != coordination.Vote || len(t.Answers) > 0 }) {
		return fmt.Errorf("no action is possible with offered %q and %d answers", t.Offered, len(t.Answers))
	}
	for _, a := range t.Answers {
		if err := checkLabel(a.Number, a.Label); err != nil {
			return err
		}
	}
	if f := t.Final; f != nil && (f.Number < 1 || f.Label != coordination.FinalLabel(f.Number)) {
		if err := checkLabel(f.Number, f.Label); err != nil {
			return fmt.Errorf("the final answer: %w", err)
		}
	}
	return nil
}

//go:embed templates/*.txt
var descriptions embed.FS

// readDescription returns the description of a tool by the name of its file. The golden files cover
// every name.
func readDescription(name string) string {
	text, _ := descriptions.ReadFile("templates/" + name + ".txt")
	return strings.TrimSpace(string(text))
}

// workflowTool returns the tool of an action as it is offered now. The enum of a vote lists
// the agents with an answer shown.
func (r *rules) workflowTool(action coordination.Action) llm.Tool {
	name := string(action)
	switch action {
	case coordination.NewAnswer:
		if s := r.task.Schema; s != nil {
			words := llm.Property{Type: "string", Description: "Words that belong beside the data. They may be left out."}
			return llm.Tool{Name: name, Description: readDescription("new_answer_data"), Parameters: s.Arguments("data", "content", words), Instead: "You have no tool " + name + ". To submit an answer, r" + inFence + "."}
		}
		return llm.NewTool(name, readDescription(r.task.answerDescription()), map[string]llm.Property{
			"content": {Type: "string", Description: "The complete answer."},
		}, "content")
	case coordination.Vote:
		description := name
		if r.task.Alone {
			description = "vote_alone"
		}
		properties := map[string]llm.Property{
			"agent_id": {Type: "string", Description: "Whose answer you vote for.", Enum: r.memory.electableAgents()},
			"reason":   {Type: "string", Description: "What decided it, in a sentence or two."},
		}
		if r.task.Confidence {
			properties["confidence"] = llm.Property{Type: "number", Description: "How likely this answer is right, from 0 to 1."}
		}
		return llm.NewTool(name, readDescription(description), properties, "agent_id", "reason")
	case coordination.Stop:
		description, owned := name, "your part"
		if r.task.Alone {
			description, owned = "stop_alone", "the work"
		}
		statuses := []string{string(coordination.Complete), string(coordination.Blocked)}
		return llm.NewTool(name, readDescription(description), map[string]llm.Property{
			"summary": {Type: "string", Description: "What you have done, and what is missing if anything is."},
			"status":  {Type: "string", Description: "complete: " + owned + " is done; blocked: you cannot go on.", Enum: statuses},
		}, "summary", "status")
	case coordination.SubmitEvaluation:
		return llm.NewTool(name, readDescription(name), map[string]llm.Property{
			"packet":     {Type: "object", Description: "The findings. A text under each of " + strings.Join(quality.EvaluationParts, ", ") + "."},
			"verdict":    {Type: "object", Description: `The verdict, iterate or converged, and a score from 0 to 10 for every criterion: {"verdict": "iterate", "scores": {"E1": 7}}.`},
			"next_tasks": {Type: "object", Null: true, Description: quality.TasksForm},
		}, "packet", "verdict", "next_tasks")
	case coordination.Submit:
		return llm.NewTool(name, readDescription(name), map[string]llm.Property{})
	default:
		return llm.NewTool(name, readDescription(name), map[string]llm.Property{
			"reason":       {Type: "string", Description: "What is wrong with the final answer."},
			"instructions": {Type: "string", Description: "What the next attempt has to do differently."},
		}, "reason", "instructions")
	}
}

func (t task) answerDescription() string {
	switch {
	case t.Purpose == coordination.Present:
		return "new_answer_final"
	case t.isDivided() && !t.Alone:
		return "new_answer_part"
	default:
		return "new_answer"
	}
}

func (m *memory) electableAgents() []string {
	return text.Each(m.answers, answer.authorName)
}
