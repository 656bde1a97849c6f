/* SPDX-License-Identifier: Apache-2.0 */
#include "report/ingest_block.h"

#include "core/record.h"

#include <stdlib.h>

/* The last address of the block; one of no bytes covers its first address. */
static uint64_t last_address(const struct ingest_block *block)
{
	uint64_t last = block->address + (block->bytes ? block->bytes - 1 : 0);

	return last < block->address ? UINT64_MAX : last;
}

static uint64_t highest_of(const struct ingest_block *node)
{
	return node ? node->highest : 0;
}

static int64_t latest_of(const struct ingest_block *node)
{
	return node ? node->latest : INT64_MIN;
}

/* What a node knows of the tree below it; to be called from the leaves up. */
static void update(struct ingest_block *node)
{
	node->highest = last_address(node);
	if (highest_of(node->left) > node->highest)
		node->highest = node->left->highest;
	if (highest_of(node->right) > node->highest)
		node->highest = node->right->highest;
	node->latest = node->released_ns ? node->released_ns : INT64_MAX;
	if (latest_of(node->left) > node->latest)
		node->latest = node->left->latest;
	if (latest_of(node->right) > node->latest)
		node->latest = node->right->latest;
}

/* Order in the tree: by address, then by id, so that every node has one place. */
static bool is_before(const struct ingest_block *a, const struct ingest_block *b)
{
	return a->address != b->address ? a->address < b->address : a->id < b->id;
}

static void split(struct ingest_block *node, const struct ingest_block *at,
		  struct ingest_block **left, struct ingest_block **right)
{
	if (!node) {
		*left = *right = NULL;
		return;
	}
	if (is_before(node, at)) {
		split(node->right, at, &node->right, right);
		*left = node;
	} else {
		split(node->left, at, left, &node->left);
		*right = node;
	}
	update(node);
}

static struct ingest_block *join(struct ingest_block *left, struct ingest_block *right)
{
	if (!left || !right)
		return left ? left : right;
	if (left->priority >= right->priority) {
		left->right = join(left->right, right);
		update(left);
		return left;
	}
	right->left = join(left, right->left);
	update(right);
	return right;
}

static struct ingest_block *insert(struct ingest_block *node, struct ingest_block *block)
{
	if (!node || block->priority > node->priority) {
		split(node, block, &block->left, &block->right);
		update(block);
		return block;
	}
	if (is_before(block, node))
		node->left = insert(node->left, block);
	else
		node->right = insert(node->right, block);
	/* It is new and live: nothing below the node has become less. */
	if (last_address(block) > node->highest)
		node->highest = last_address(block);
	node->latest = INT64_MAX;
	return node;
}

static struct ingest_block *take_out(struct ingest_block *node, struct ingest_block *block)
{
	if (!node)
		return NULL;
	if (node == block)
		return join(node->left, node->right);
	if (is_before(block, node))
		node->left = take_out(node->left, block);
	else
		node->right = take_out(node->right, block);
	update(node);
	return node;
}

/* A block has changed: so does what the nodes above it know. */
static void refresh(struct ingest_block *node, const struct ingest_block *block)
{
	if (!node)
		return;
	if (node != block)
		refresh(is_before(block, node) ? node->left : node->right, block);
	update(node);
}

static struct ingest_block **tree_of(struct ingest_blocks *blocks, const struct ingest_block *block)
{
	return block->kind == BLOCK_ARRAY ? &blocks->handles : &blocks->addresses;
}

static uint32_t draw_priority(struct ingest_blocks *blocks)
{
	uint32_t x = blocks->seed ? blocks->seed : 2463534242u;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return blocks->seed = x;
}

static void drop(struct ingest_blocks *blocks, struct ingest_block *block)
{
	if (block->is_placed) {
		struct ingest_block **tree = tree_of(blocks, block);

		*tree = take_out(*tree, block);
	}
	block->next = blocks->spare;
	blocks->spare = block;
}

struct ingest_block *ingest_block_add(struct ingest_blocks *blocks, uint64_t number)
{
	struct ingest_block *block = blocks->spare;
	struct ingest_block *stale = ingest_table_find(&blocks->by_number, number);

	if (stale) {
		if (!stale->awaits_free)
			stale->released_ns = stale->live_ns ? stale->live_ns : 1;
		ingest_block_retire(blocks, stale);
	}
	if (block)
		blocks->spare = block->next;
	else
		block = ingest_table_memory(NULL, 1, sizeof(*block));
	*block = (struct ingest_block){ .number = number };
	ingest_table_put(&blocks->by_number, number, block);
	return block;
}

void ingest_block_place(struct ingest_blocks *blocks, struct ingest_block *block)
{
	struct ingest_block **tree = tree_of(blocks, block);

	block->priority = draw_priority(blocks);
	block->left = block->right = NULL;
	*tree = insert(*tree, block);
	block->is_placed = true;
}

struct ingest_block *ingest_block_find(const struct ingest_blocks *blocks, uint64_t number)
{
	return ingest_table_find(&blocks->by_number, number);
}

void ingest_block_await(struct ingest_blocks *blocks, struct ingest_block *block)
{
	block->awaits_free = true;
	if (block->is_placed)
		refresh(*tree_of(blocks, block), block);
}

void ingest_block_retire(struct ingest_blocks *blocks, struct ingest_block *block)
{
	ingest_table_take(&blocks->by_number, block->number);
	if (block->is_placed)
		refresh(*tree_of(blocks, block), block);
	block->is_retired = true;
	block->awaits_free = false;
	block->next = NULL;
	if (blocks->newest)
		blocks->newest->next = block;
	else
		blocks->oldest = block;
	blocks->newest = block;
	blocks->retired++;
}

void ingest_block_shorten(struct ingest_blocks *blocks, struct ingest_block *block,
			  int64_t released_ns)
{
	block->released_ns = released_ns;
	refresh(*tree_of(blocks, block), block);
}

void ingest_block_settle(struct ingest_blocks *blocks, struct ingest_block *block)
{
	block->is_batched = false;
	if (block->released_ns && !block->is_retired && !block->awaits_free)
		drop(blocks, block);
}

void ingest_block_forget(struct ingest_blocks *blocks, int64_t horizon_ns)
{
	while (blocks->retired > INGEST_BLOCK_RETIRED_MIN) {
		struct ingest_block *block = blocks->oldest;

		if (block->released_ns >= horizon_ns && blocks->retired <= INGEST_BLOCK_RETIRED_MAX)
			return;
		blocks->oldest = block->next;
		blocks->retired--;
		block->is_retired = false;
		if (!block->is_batched)
			drop(blocks, block);
	}
}

static bool is_live_at(const struct ingest_block *block, int64_t at_ns)
{
	return block->live_ns <= at_ns && (!block->released_ns || block->released_ns >= at_ns);
}

static struct ingest_block *newer(struct ingest_block *a, struct ingest_block *b)
{
	if (!a || !b)
		return a ? a : b;
	return a->live_ns > b->live_ns || (a->live_ns == b->live_ns && a->id > b->id) ? a : b;
}

/*
 * All nodes that cover the address and lived then, cutting off subtrees that end
 * before either: a program that uses one address again and again leaves many
 * blocks there, of which few are in question.
 */
static struct ingest_block *stab(struct ingest_block *node, uint64_t address, int64_t at_ns)
{
	struct ingest_block *best = NULL;

	while (node && node->highest >= address && node->latest >= at_ns) {
		if (node->left)
			best = newer(best, stab(node->left, address, at_ns));
		if (node->address > address)
			break;
		if (last_address(node) >= address && is_live_at(node, at_ns))
			best = newer(best, node);
		node = node->right;
	}
	return best;
}

struct ingest_block *ingest_block_at(const struct ingest_blocks *blocks, uint64_t address,
				     int64_t at_ns)
{
	return stab(blocks->addresses, address, at_ns);
}

/* Equal handles may lie on both sides of a node; few do. */
static struct ingest_block *find_handle(struct ingest_block *node, uint64_t handle, int64_t at_ns)
{
	struct ingest_block *best;

	while (node && node->address != handle)
		node = node->address < handle ? node->right : node->left;
	if (!node || node->latest < at_ns)
		return NULL;
	best = newer(find_handle(node->left, handle, at_ns),
		     find_handle(node->right, handle, at_ns));
	return is_live_at(node, at_ns) ? newer(best, node) : best;
}

struct ingest_block *ingest_block_array(const struct ingest_blocks *blocks, uint64_t handle,
					int64_t at_ns)
{
	return find_handle(blocks->handles, handle, at_ns);
}

static bool is_tree_sound(const struct ingest_block *node)
{
	struct ingest_block copy;

	if (!node)
		return true;
	copy = *node;
	update(&copy);
	return copy.highest == node->highest && copy.latest == node->latest &&
	       (!node->left || (is_before(node->left, node) &&
				node->left->priority <= node->priority)) &&
	       (!node->right || (is_before(node, node->right) &&
				 node->right->priority <= node->priority)) &&
	       is_tree_sound(node->left) && is_tree_sound(node->right);
}

bool ingest_block_check(const struct ingest_blocks *blocks)
{
	const struct ingest_block *block = blocks->oldest;
	uint32_t retired = 0;

	for (; block; block = block->next, retired++)
		if (!block->is_retired || !block->released_ns)
			return false;
	return retired == blocks->retired && is_tree_sound(blocks->addresses) &&
	       is_tree_sound(blocks->handles);
}

static void free_block(void *block)
{
	free(block);
}

static void free_list(struct ingest_block *block)
{
	while (block) {
		struct ingest_block *next = block->next;

		free(block);
		block = next;
	}
}

void ingest_block_free_all(struct ingest_blocks *blocks)
{
	ingest_table_free(&blocks->by_number, free_block);
	free_list(blocks->oldest);
	free_list(blocks->spare);
	*blocks = (struct ingest_blocks){ 0 };
}
