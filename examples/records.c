/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structures on the device: an array of records, and its fields as arrays of their own
 * over the same memory, one of them with an axis of its own.
 */
#include "must.h"

enum { COUNT = 100 };

struct particle {
	int32_t id;
	float position[3];
	double mass;
};

static const struct custody_field fields[] = {
	{ "id", { CUSTODY_TYPE_INT, 4 }, offsetof(struct particle, id), 0, { 0 } },
	{ "position", { CUSTODY_TYPE_FLOAT, 4 }, offsetof(struct particle, position), 1, { 3 } },
	{ "mass", { CUSTODY_TYPE_FLOAT, 8 }, offsetof(struct particle, mass), 0, { 0 } },
};

int main(void)
{
	struct custody_context *context = open_context();
	static struct particle particles[COUNT], back[COUNT];
	struct custody_layout layout = {
		.size = sizeof(layout),
		.ndim = 1,
		.shape = { COUNT },
		.type = { CUSTODY_TYPE_RECORD, sizeof(struct particle) },
	};
	struct custody_layout shape = { .size = sizeof(shape) };
	struct custody_array *array, *position, *mass;
	float height;

	for (int i = 0; i < COUNT; i++)
		particles[i] = (struct particle){ i, { 0, 1, (float)i / 2 }, 1 };
	MUST(custody_array_to_device(context, particles, &layout, NULL, true, NULL, &array));

	MUST(custody_array_field(array, fields, 3, "position", &position));
	MUST(custody_array_layout(position, &shape));
	printf("position    %d axes, %zu by %zu, a record of %td bytes from one to the next\n",
	       shape.ndim, shape.shape[0], shape.shape[1], shape.strides[0]);
	MUST(custody_array_get(position, (size_t[]){ 31, 2 }, &height, NULL));
	CHECK(height == 15.5f);

	MUST(custody_array_field(array, fields, 3, "mass", &mass));
	MUST(custody_array_set(mass, (size_t[]){ 7 }, &(double){ 80.5 }, NULL));
	MUST(custody_array_copy_to_host(array, back, &layout, NULL));
	CHECK(back[7].mass == 80.5 && back[7].id == 7 && back[8].mass == 1);
	printf("mass        of record 7 is %g, and nothing else has changed\n", back[7].mass);

	MUST(custody_array_destroy(mass));
	MUST(custody_array_destroy(position));
	MUST(custody_array_destroy(array));
	return 0;
}
