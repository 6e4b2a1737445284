package scenario

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/scenario"
	scenarioagent "conclave/engine/scenario/agent"
	"conclave/engine/step"
)

// redacted takes the place of a credential in what people read.
const redacted = "[redacted]"

// marks take the place of the credentials of prd.md in everything that is kept of a
// step: its journal, its transcript, its report. A step that goes on from its
// journal needs them again, to sign in, so a mark stands for one credential, and is
// put back before the model or a tool sees it. Nobody who could write one into a page
// knows what marks look like in this run.
type marks struct {
	hide *strings.Replacer // credentials by marks
	show *strings.Replacer // marks by credentials
	args *strings.Replacer // marks by credentials as a JSON string has them
	read *strings.Replacer // credentials and marks by what people read
}

// newMarks makes the marks of a run of the values, the longest first. seed is the
// run's own, and is told to nobody; nil without values.
func newMarks(seed string, values []string) *marks {
	if len(values) == 0 {
		return nil
	}
	sum := sha256.Sum256([]byte("credential " + seed))
	var hide, show, args, read []string
	for i, value := range values {
		mark := fmt.Sprintf("[credential-%s-%d]", hex.EncodeToString(sum[:6]), i+1)
		within := quoted(value)
		show, args, read = append(show, mark, value), append(args, mark, within), append(read, mark, redacted)
		for _, form := range slices.Compact([]string{value, within}) {
			hide, read = append(hide, form, mark), append(read, form, redacted)
		}
	}
	return &marks{
		hide: strings.NewReplacer(hide...), show: strings.NewReplacer(show...),
		args: strings.NewReplacer(args...), read: strings.NewReplacer(read...),
	}
}

// quoted is text as it stands within a JSON string.
func quoted(text string) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(text) != nil { // a string always can be
		return text
	}
	return strings.TrimSuffix(b.String(), "\n")[1 : b.Len()-2]
}

// clean is text for people.
func (m *marks) clean(text string) string {
	if m == nil {
		return text
	}
	return m.read.Replace(text)
}

// holds reports whether there is a credential in text.
func (m *marks) holds(text string) bool { return m.clean(text) != text }

// on has everything that is kept of a step marked.
func (m *marks) on(p *step.Ports) {
	if m == nil {
		return
	}
	before := p.Redact
	p.Redact = func(text []byte) []byte {
		if before != nil {
			text = before(text)
		}
		if ours(string(text)) {
			return text
		}
		return []byte(m.hide.Replace(string(text)))
	}
	p.Model = unmarkedModel{Model: p.Model, marks: m}
}

// words are what our own documents say in strings of their own: a user whose name is
// "user" must not make them unreadable.
var words = []string{
	string(llm.System), string(llm.User), string(llm.Assistant), string(llm.ToolRole),
	string(loop.Opening), string(loop.Updated), string(loop.Reply), string(loop.Results), string(loop.Rejection), string(loop.Wasted),
	string(loop.Resumed), string(loop.Refused), string(loop.Elided), string(loop.Compacted),
	string(scenario.Pass), string(scenario.Fail), scenarioagent.KindReported, scenarioagent.ReportTool, scenario.EvidenceTool,
	scenarioagent.NoReport, scenarioagent.InvalidReport, scenarioagent.SeveralReports, scenarioagent.UnknownTool,
}

// encoded is the content of an image.
var encoded = regexp.MustCompile(`^[A-Za-z0-9+/]{200,}={0,2}$`)

// ours reports whether a string has nothing that anybody said: a word of ours, a
// time, an image. A short credential may well be found in one.
func ours(text string) bool {
	if slices.Contains(words, text) || encoded.MatchString(text) {
		return true
	}
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil
}

// report is a committed report with the credentials put back.
func (m *marks) report(payload []byte) []byte {
	if m == nil {
		return payload
	}
	return []byte(m.args.Replace(string(payload)))
}

// call is a tool call with the credentials put back.
func (m *marks) call(c llm.ToolCall) llm.ToolCall {
	if m != nil {
		c.Name, c.Arguments = m.show.Replace(c.Name), m.args.Replace(c.Arguments)
	}
	return c
}

// unmarkedModel is a model that is told the credentials themselves.
type unmarkedModel struct {
	loop.Model
	marks *marks
}

// Generate implements loop.Model.
func (u unmarkedModel) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	req.Messages = slices.Clone(req.Messages)
	for i, m := range req.Messages {
		m.Content = u.marks.show.Replace(m.Content)
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for j, c := range m.ToolCalls {
			m.ToolCalls[j] = u.marks.call(c)
		}
		req.Messages[i] = m
	}
	return u.Model.Generate(ctx, req)
}
