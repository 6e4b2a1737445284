package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"conclave/engine/llm"
)

// call is one HTTP request.
func (c *Client) call(ctx context.Context, params sdk.ChatCompletionNewParams) (llm.Reply, error) {
	limited, w, release := watched(ctx)
	defer release()

	var res *http.Response
	_, err := c.chat.New(limited, params, option.WithMiddleware(w.over), option.WithResponseBodyInto(&res))
	if res != nil && res.Body != nil {
		defer res.Body.Close()
	}
	var reply llm.Reply
	arrived := res != nil && (err == nil || res.StatusCode >= 400)
	switch {
	case arrived && (res.StatusCode < 200 || res.StatusCode > 299):
		// The SDK has put the body of an error status back; a read that failed leaves it empty.
		said, _ := io.ReadAll(res.Body)
		err = c.refused(res.StatusCode, res.Header, said)
	case err == nil:
		reply, err = c.reply(res.Header, res.Body, w)
	}
	var failed *llm.Error
	switch {
	case err == nil:
		return reply, nil
	case ctx.Err() != nil:
		return llm.Reply{}, fmt.Errorf("calling model %s at %s: %w", c.model, c.host, context.Cause(ctx))
	case errors.As(err, &failed):
		return reply, err
	case errors.Is(err, errTooLarge):
		return reply, c.unusable(err.Error(), err)
	}
	if s, ok := stalled(limited); ok {
		return reply, c.failure(llm.Network, 0, s.what, "use a faster model or server", s)
	}
	return reply, c.unreached(err)
}
