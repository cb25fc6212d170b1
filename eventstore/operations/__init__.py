"""Operations on the whole store: migration, backup, restore, export and rights."""
