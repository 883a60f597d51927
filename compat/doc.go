// Package compat holds the promises that reach across packages and versions.
//
//   - proof: nothing is lost and nothing is stored twice, whatever is cut or killed;
//   - network: clients and servers on networks that lose, delay, double and forget;
//   - ceiling: the product's speed against a bare prototype, in one run;
//   - the test in this folder: the shape of the tree, such as who may import whom.
//
// It holds no code of its own.
package compat
