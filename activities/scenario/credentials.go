package scenario

import (
	"context"
	"regexp"
	"slices"
	"time"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/scenario"
	scenarioagent "conclave/engine/scenario/agent"
	"conclave/engine/step"
	"conclave/engine/text"
)

// vaultOf returns the vault for a run's credentials. Its seed is that of the run's first claim.
func vaultOf(ctx context.Context, store artifact.Store, layout artifact.Layout, project scenario.Project) (*text.Vault, error) {
	secrets := project.Secrets()
	if len(secrets) == 0 {
		return nil, nil
	}
	first, err := artifact.ReadJSON[claim](ctx, store, claimOf(layout, 1))
	if err != nil {
		return nil, err
	}
	return text.NewVault(first.Seed, secrets), nil
}

// hideCredentials hides credentials in a step's journal, transcript and report, and restores them for the
// model.
func hideCredentials(p *step.Ports, vault *text.Vault) {
	if vault == nil {
		return
	}
	earlier := p.Redact
	p.Redact = func(text []byte) []byte {
		if earlier != nil {
			text = earlier(text)
		}
		if isReserved(string(text)) {
			return text
		}
		return []byte(vault.Hide(string(text)))
	}
	p.Model = restoringModel{Model: p.Model, vault: vault}
}

// words are values that the program itself writes into documents. They stay readable even if a
// credential, such as the user name "user", equals one of them.
var words = []string{
	string(llm.System), string(llm.User), string(llm.Assistant), string(llm.ToolRole),
	string(loop.Opening), string(loop.Updated), string(loop.Reply), string(loop.Results), string(loop.Rejection), string(loop.Wasted),
	string(loop.Resumed), string(loop.Refused), string(loop.Elided), string(loop.Compacted),
	loop.ReplyTooLong, scenario.EvidenceTool,
}

// encodedImage matches the encoded content of an image.
var encodedImage = regexp.MustCompile(`^[A-Za-z0-9+/]{200,}={0,2}$`)

// isReserved reports whether a string is a word of the program, a time or an image. Each of them may
// contain a short credential by chance.
func isReserved(text string) bool {
	if slices.Contains(words, text) || slices.Contains(scenarioagent.Words(), text) || encodedImage.MatchString(text) {
		return true
	}
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil
}

func restoreCall(vault *text.Vault, c llm.ToolCall) llm.ToolCall {
	c.Name, c.Arguments = vault.Restore(c.Name), vault.RestoreJSON(c.Arguments)
	return c
}

// restoringModel restores credentials in requests before it calls the model.
type restoringModel struct {
	loop.Model
	vault *text.Vault
}

func (r restoringModel) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	req.Messages = slices.Clone(req.Messages)
	for i, m := range req.Messages {
		m.Content = r.vault.Restore(m.Content)
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for j, c := range m.ToolCalls {
			m.ToolCalls[j] = restoreCall(r.vault, c)
		}
		req.Messages[i] = m
	}
	return r.Model.Generate(ctx, req)
}
