// Package prices has the list prices and context windows of models at the providers' own addresses,
// as of a given day.
//
// They are a fallback: the cost that a server reports and the operator's configuration take
// precedence (package worker). If a model is in neither of them nor in the table, its price is
// unknown, never zero. The table contains list prices of plain calls, without discounts for batches
// and surcharges for regions or cache writes. The figures in table.json are facts from the
// providers' price lists, as collected by the MIT-licensed genai-prices.
//
// Start with Find in prices.go.
package prices
