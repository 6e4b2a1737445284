package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
	"conclave/engine/step"
	"conclave/engine/text"
)

// Step is one launch of a pipeline's step.
type Step struct {
	Layout  artifact.Layout
	Launch  pipeline.Launch
	Token   string    // execution token
	Attempt int       // counts the executions of the launch
	Spent   llm.Usage // usage of earlier attempts

	// Agent is the ID of the agent that provides the step's model and tools, or "" if the step has no agent.
	Agent string

	System       string          // system message of the agent
	Prompt       string          // prompt of the definition, a template
	Destinations []string        // destinations of the definition
	Request      string          // request of the run
	Inputs       json.RawMessage // inputs of the run; nil without

	StopAtFailure bool               // whether the definition's on_tool_error is fail
	Contents      []pipeline.Content // conditions of every rule of the definition on text and output

	Output *llm.DataSchema // of the step's output; nil for a text alone

	// Team is the status of a session step's team, or "" for other steps. Data are those of its decision.
	Team string
	Data json.RawMessage

	Join  *Merge // of a step that joins branches; nil for other steps
	Lists []List // lists that a for_each goes through and that the output may have

	// Items is the list of the for_each whose item the step is for, if the definition has it, and ItemsPath is
	// the path of the list in the output of another step, if that has it.
	Items     json.RawMessage
	ItemsPath []string

	Contexts []step.Context // further material, by name

	// Messages returns the number of human messages. It is nil if messages do not reach a running step.
	Messages func(ctx context.Context) (int, error)
}

// Spec reads the texts that the launch shows and builds the step from them.
func (s Step) Spec(ctx context.Context, store artifact.Store) (step.Spec, error) {
	o := &opened{Step: s, store: store}
	if err := o.loadTexts(ctx); err != nil {
		return step.Spec{}, err
	}
	number, err := s.committedNumber(ctx, store)
	if err == nil && number == 0 {
		number, err = s.reserveNumber(ctx, store)
	}
	if err != nil {
		return step.Spec{}, err
	}
	return step.Spec{
		Layout: s.Layout, Token: s.Token, Agent: s.ownerName(), Dir: s.stepDir, After: number - 1,
		Attempt:       step.Attempt{Number: s.Attempt, Spent: s.Spent, ResumeFrom: s.Launch.ResumeFrom, Uncounted: s.Launch.Uncounted},
		Shown:         step.Shown{Seen: map[string]int{}, Files: s.Launch.Workspace, Context: s.Contexts},
		MaxModelCalls: max(200, 2*s.Launch.Most), // the rules end the step before; summaries count here alone
		Open:          o.openRules, Seal: o.sealAction(ctx), Witnessed: o.lastWitnessed,
		Documents: func(number int, c artifact.Commit) ([]step.Document, error) { return s.Documents(store, number, c) },
	}, nil
}

// Place returns the part of the Spec that locates the step's records. It needs Layout, Launch and Token.
func (s Step) Place(ctx context.Context, store artifact.Store) (step.Spec, error) {
	spec := step.Spec{Layout: s.Layout, Token: s.Token, Agent: s.Agent, Dir: s.stepDir, After: s.Launch.After, Shown: step.Shown{Files: s.Launch.Workspace}}
	before := s.Launch.After
	for claim, err := range Claims(store, s.Layout.InBranch(s.Launch.Branch)).From(ctx, before+1) {
		if err != nil {
			return spec, fmt.Errorf("look for the number of a step: %w", err)
		}
		if claim.Token == s.Token {
			spec.After = before
			break
		}
		before++
	}
	return spec, nil
}

// Claims returns the claims of the step numbers of a run, or of a branch with its layout. Directories are named after both the number and the
// step, so without them two steps could have the same number.
func Claims(store artifact.Store, layout artifact.Layout) artifact.Series[artifact.Claim] {
	return artifact.Series[artifact.Claim]{Store: store, Key: layout.PipelineClaim}
}

// Question reads the texts that the launch of a session step shows, and returns the question for its team.
func (s Step) Question(ctx context.Context, store artifact.Store) (string, error) {
	o := &opened{Step: s, store: store}
	if err := o.loadTexts(ctx); err != nil {
		return "", err
	}
	var err error
	o.task.Messages, err = s.messagesAfter(ctx, store, 0, s.Launch.Messages)
	return o.task.teamQuestion(), err
}

func (s Step) stepDir(number int) string {
	return s.Layout.InBranch(s.Launch.Branch).PipelineStep(number, s.Launch.Step, "")
}

// reserveNumber claims the first free number above that of the newest step, or finds the one that
// an earlier attempt claimed.
func (s Step) reserveNumber(ctx context.Context, store artifact.Store) (int, error) {
	n, _, err := Claims(store, s.Layout.InBranch(s.Launch.Branch)).Claim(ctx, s.Launch.After+1, artifact.Claim{Token: s.Token}, func(_ int, other artifact.Claim) (bool, error) {
		return other.Token == s.Token, nil
	})
	if err != nil {
		return 0, fmt.Errorf("reserve a number: %w", err)
	}
	return n, nil
}

// PersonQuestion fills the question of an approval step in with the values that it names.
func (s Step) PersonQuestion(ctx context.Context, store artifact.Store, question string) (string, error) {
	t, err := pipeline.ReadTemplate(question)
	if err != nil {
		return "", err
	}
	values, err := s.Values(ctx, store)
	if err != nil {
		return "", err
	}
	return t.Fill(values.Value)
}

// committedNumber returns the number of the step to resume if that step has a commit that the
// workflow does not know, and otherwise 0.
func (s Step) committedNumber(ctx context.Context, store artifact.Store) (int, error) {
	if s.Launch.ResumeFrom == "" {
		return 0, nil
	}
	resumed := s
	resumed.Token = s.Launch.ResumeFrom
	spec, err := resumed.Place(ctx, store)
	if err != nil {
		return 0, err
	}
	there, err := store.Exists(ctx, s.stepDir(spec.After+1)+"action.json")
	if err != nil || !there {
		return 0, err
	}
	return spec.After + 1, nil
}

// opened is a step with its loaded task.
type opened struct {
	Step
	store artifact.Store
	task  task
	rules *rules // nil before open
}

func (o *opened) loadTexts(ctx context.Context) error {
	l := o.Launch
	o.task = task{
		Kind: l.Kind, Request: o.Request, Output: o.Output, Data: o.Data, Join: o.Join, Reply: l.Reply, Destinations: o.Destinations, Deepest: l.Deepest, Closed: l.Closed, Used: l.Used, Most: l.Most, Omitted: l.Omitted,
		CostUSD: l.CostUSD, StopAtFailure: o.StopAtFailure, Frame: quoteDelimiter(o.Token),
	}
	for _, ref := range l.History {
		if ref.Textless {
			o.task.History = append(o.task.History, earlier{Step: ref.Step, Note: ref.Note})
			continue
		}
		c, err := ReadCommit(ctx, o.store, o.Layout, ref)
		if err != nil {
			return fmt.Errorf("read the text of step %s: %w", ref.Step, err)
		}
		o.task.History = append(o.task.History, earlier{Step: ref.Step, Text: c.Text, Note: ref.Note})
	}
	if err := o.fillPrompt(ctx); err != nil || l.Return == nil {
		return err
	}
	var err error
	o.task.Return, err = o.readReturned(ctx, *l.Return)
	return err
}

// quoteDelimiter derives the line between quoted texts from the execution token, which their
// authors cannot know.
func quoteDelimiter(token string) string {
	return "=====" + artifact.SumOf([]byte("segment " + token))[:12] + "====="
}

func (o *opened) readReturned(ctx context.Context, r pipeline.Return) (*returned, error) {
	data, err := o.store.Get(ctx, o.Layout.Blob(r.Messages))
	var saved caller
	if err == nil {
		if artifact.SumOf(data) != r.Messages {
			err = artifact.ErrCorrupt
		} else {
			err = json.Unmarshal(data, &saved)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the conversation of the caller: %w", err)
	}
	var called pipeline.Ended
	if r.Called.Number > 0 { // else a caller without iterations, which ended without a launch
		if called, err = ReadCommit(ctx, o.store, o.Layout, r.Called); err != nil {
			return nil, fmt.Errorf("read the result of the called step: %w", err)
		}
	}
	return &returned{Messages: saved.Messages, Heard: saved.Heard, Status: r.Status, Text: called.Text}, nil
}

// openRules builds the rules. The loop then passes them the journal of earlier attempts.
func (o *opened) openRules(access step.Access) (loop.Rules, []llm.Message, error) {
	task := o.task
	task.Tools = append(task.Tools, text.Each(access.Tools, func(tool llm.Tool) string { return tool.Name })...)
	if o.Launch.Kind == pipeline.Agent { // tools and teams read no messages here
		task.News = o.readMessages
	}
	o.rules = newRules(task)
	return o.rules, task.openingMessages(), nil
}

// readMessages reads the human messages after a number, including those sent after the launch.
func (o *opened) readMessages(ctx context.Context, after int) ([]step.Message, error) {
	last := o.Launch.Messages
	if o.Messages != nil {
		announced, err := o.Messages(ctx)
		if err != nil {
			return nil, err
		}
		last = max(last, announced)
	}
	return o.messagesAfter(ctx, o.store, after, last)
}

// messagesAfter reads the human messages to the step after the number after, up to last. The
// error is a *step.UnwrittenError while one is not stored.
func (s Step) messagesAfter(ctx context.Context, store artifact.Store, after, last int) ([]step.Message, error) {
	var numbers []int
	for n := after + 1; n <= last; n++ {
		numbers = append(numbers, n)
	}
	messages, err := step.ReadMessages(ctx, store, s.Layout, numbers)
	return slices.DeleteFunc(messages, func(m step.Message) bool {
		return !pipeline.Keep{Branch: m.Branch}.IsFor(s.Launch.Branch)
	}), err
}

// TeamMessages returns the texts of the human messages to the step after the number after, up to last.
func (s Step) TeamMessages(ctx context.Context, store artifact.Store, after, last int) ([]string, error) {
	messages, err := s.messagesAfter(ctx, store, after, last)
	texts := text.Each(messages, func(m step.Message) string { return m.Text })
	return texts, err
}

// lastWitnessed returns the number of the last human message that the step read.
func (o *opened) lastWitnessed() (map[string]int, int) {
	if o.rules == nil {
		return map[string]int{}, 0
	}
	return map[string]int{}, o.rules.heard
}

// committed is the payload of a step's commit.
type committed struct {
	payload
	Messages   string `json:"messages,omitempty"` // SHA-256 of the blob with a caller's conversation
	Iterations int    `json:"iterations"`         // the step's model calls since its entry

	Team    string `json:"team,omitempty"`    // status of a session step's team
	Matched []int  `json:"matched,omitempty"` // the rules whose patterns match the text

	Lists     []pipeline.List `json:"lists,omitempty"`     // in the output
	Conflicts []string        `json:"conflicts,omitempty"` // of a join
	Lost      int             `json:"lost,omitempty"`      // branches of a join that failed
	Approved  *bool           `json:"approved,omitempty"`  // whether the person who was asked has approved
}

// caller is the blob with the conversation of a caller.
type caller struct {
	Messages []llm.Message `json:"messages"`
	Heard    int           `json:"heard"`
}

// sealAction builds the commit payload of an action. The conversation of a caller is stored first, as a blob.
func (o *opened) sealAction(ctx context.Context) func(loop.Action) (step.Sealed, error) {
	return func(a loop.Action) (step.Sealed, error) {
		var c committed
		if err := json.Unmarshal(a.Payload, &c.payload); err != nil {
			return step.Sealed{}, err
		}
		c.Text = step.Paths{}.Rewrite(c.Text) // the next step has another directory
		c.Iterations, c.Team, c.Matched = o.rules.countIterations(), o.Team, matchContents(o.Contents, c.Text, c.Output)
		c.Lists = countLists(o.Lists, c.Output)
		if r := o.Launch.Reply; r != nil {
			c.Approved = &r.Allow
		}
		if o.Join != nil {
			c.Conflicts, c.Lost = o.Join.Conflicts, o.Join.Lost
		}
		if a.Kind == kindCall {
			data, err := json.Marshal(caller{Messages: o.rules.conv.Messages, Heard: o.rules.heard})
			if err == nil {
				c.Messages, err = artifact.PutBlob(ctx, o.store, o.Layout, data)
			}
			if err != nil {
				return step.Sealed{}, fmt.Errorf("store the conversation of the caller: %w", err)
			}
		}
		sealed, err := json.Marshal(c)
		return step.Sealed{Payload: sealed, Workspace: true}, err
	}
}

// matchContents returns the numbers of the rules whose conditions on the content hold.
func matchContents(rules []pipeline.Content, content string, output json.RawMessage) []int {
	var numbers []int
	for i, rule := range rules {
		if rule.Fits(content, output) {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// ReadCommit reads a step's committed action, with its full text.
func ReadCommit(ctx context.Context, store artifact.Store, layout artifact.Layout, ref pipeline.Ref) (pipeline.Ended, error) {
	c, err := artifact.ReadJSON[artifact.Commit](ctx, store, layout.InBranch(ref.Branch).PipelineStep(ref.Number, ref.Step, "action.json"))
	if err != nil {
		return pipeline.Ended{}, err
	}
	return Ended(c)
}

// toolFailed is the failure type of a tools step with on_tool_error: fail.
const toolFailed = "ToolFailed"

// Ended converts a commit to its event, with the full text and without a number.
func Ended(c artifact.Commit) (pipeline.Ended, error) {
	var p committed
	if err := json.Unmarshal(c.Payload, &p); err != nil {
		return pipeline.Ended{}, fmt.Errorf("read a committed %s: %w", c.Kind, err)
	}
	e := pipeline.Ended{
		Status: pipeline.Completed, To: p.To, Messages: p.Messages, Iterations: p.Iterations,
		Text: p.Text, Said: p.Text != "" && c.Kind != kindCall, Workspace: c.Manifest, Usage: c.Usage,
		ExitCode: p.ExitCode, Failed: p.Failed, Team: p.Team, Matched: p.Matched, Output: p.Output,
		Lists: p.Lists, Conflicts: p.Conflicts, Lost: p.Lost, Approved: p.Approved,
	}
	switch c.Kind {
	case kindCompleted:
	case kindMaxIterations:
		e.Status = pipeline.MaxIterations
	case kindJump:
		e.Action = pipeline.Jump
	case kindCall:
		e.Status, e.Action = pipeline.CallPending, pipeline.Call
	case kindFailed:
		e.Status, e.Cause = pipeline.Failed, &pipeline.Failure{Type: toolFailed, Message: p.Why}
		if len(p.Conflicts) > 0 {
			e.Cause.Type = pipeline.Conflict
		}
	default:
		return pipeline.Ended{}, fmt.Errorf("a committed action of the unknown kind %q", c.Kind)
	}
	return e, nil
}

// Documents returns the documents that follow from a commit: answer.json, if the step has a
// text, output.json, if it has an output, and last_action.json.
func (s Step) Documents(store artifact.Store, number int, c artifact.Commit) ([]step.Document, error) {
	e, err := Ended(c)
	if err != nil {
		return nil, err
	}
	last := c.LastAction(s.ownerName(), number)
	if c.Manifest != "" {
		path := step.FilesPath(store, s.stepDir(number)+"workspace")
		last.WorkspacePath = &path
	}
	var documents []step.Document
	if e.Said {
		last.AnswerText = &e.Text
		documents = append(documents, step.Document{
			Key:  s.stepDir(number) + "answer.json",
			Body: artifact.Answer{AgentID: s.ownerName(), Answer: e.Text, Timestamp: c.Timestamp, Label: s.Launch.Step},
		})
	}
	if e.Output != nil {
		documents = append(documents, step.Document{Key: s.stepDir(number) + "output.json", Body: e.Output})
	}
	return append(documents, step.Document{Key: s.stepDir(number) + "last_action.json", Body: last, Replace: true}), nil
}

func (s Step) ownerName() string { return cmp.Or(s.Agent, s.Launch.Step) }
