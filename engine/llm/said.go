package llm

import "context"

type saidKey struct{}

// WithSaid returns a context in which model calls pass the text received so far, including
// partial tool calls, to said, about once a second while the reply arrives.
func WithSaid(ctx context.Context, said func(text string)) context.Context {
	return context.WithValue(ctx, saidKey{}, said)
}

// Said returns the function given to WithSaid, or nil.
func Said(ctx context.Context) func(text string) {
	said, _ := ctx.Value(saidKey{}).(func(text string))
	return said
}
